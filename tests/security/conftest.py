"""The rig of the tests of `collect`."""

from tests.collect.conftest import rig

__all__ = ["rig"]
