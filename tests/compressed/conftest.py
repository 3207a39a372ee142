"""Runs and a fake harness, as the tests of runs and of `collect` make them."""

from tests.collect.conftest import rig
from tests.runs.conftest import run

__all__ = ["rig", "run"]
