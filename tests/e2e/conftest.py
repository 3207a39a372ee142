"""Prints the attribution table, and says loudly which harness was not run.

Workers share the runs (pytest-xdist): the tests of a file share what its runs left behind, so they stay together;
a cell of the shared acceptance stands alone.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_TABLE = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TABLE] = []


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker a file at a time, but of the shared acceptance a cell."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.endswith("test_acceptance.py") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _ByFile(config, log)


@pytest.fixture(scope="session")
def e2e_table(pytestconfig: pytest.Config) -> list[str]:
    """Lines for the summary, one per real run."""
    return pytestconfig.stash[_TABLE]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its lines to the process that prints the summary."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["attribution"] = session.config.stash[_TABLE]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:  # noqa: ARG001 (the hook's own parameters)
    node.config.stash[_TABLE].extend(getattr(node, "workeroutput", {}).get("attribution", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table of all runs, then the harnesses that could not be run."""
    if lines := config.stash[_TABLE]:
        terminalreporter.section("attribution, real harness")
        for line in sorted(lines):
            terminalreporter.line(line)
    reports = terminalreporter.getreports("skipped")
    skipped = {str(report.longrepr[2]) for report in reports if isinstance(report.longrepr, tuple)}
    if not_run := sorted(reason for reason in skipped if "NOT RUN" in reason):
        terminalreporter.section("NOT RUN", red=True, bold=True)
        for reason in not_run:
            terminalreporter.line(reason, red=True)
