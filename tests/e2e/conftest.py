"""Prints the attribution table, and says loudly which harness was not run."""

import pytest

_TABLE = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TABLE] = []


@pytest.fixture(scope="session")
def e2e_table(pytestconfig: pytest.Config) -> list[str]:
    """Lines for the summary, one per real run."""
    return pytestconfig.stash[_TABLE]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table of all runs, then the harnesses that could not be run."""
    if lines := config.stash[_TABLE]:
        terminalreporter.section("attribution, real harness")
        for line in lines:
            terminalreporter.line(line)
    reports = terminalreporter.getreports("skipped")
    skipped = {str(report.longrepr[2]) for report in reports if isinstance(report.longrepr, tuple)}
    if not_run := sorted(reason for reason in skipped if "NOT RUN" in reason):
        terminalreporter.section("NOT RUN", red=True, bold=True)
        for reason in not_run:
            terminalreporter.line(reason, red=True)
