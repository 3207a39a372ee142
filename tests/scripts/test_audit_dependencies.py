"""What the audit of dependencies makes of pip-audit's reports."""

from typing import Any

import pytest

from scripts import audit_dependencies
from scripts.audit_dependencies import FOUND, NOT_RUN, ROOT, NotRunError, direct_dependencies, judge, main

DIRECT = {"orjson", "typing-extensions"}


def package(name: str, *vulnerabilities: str) -> dict[str, Any]:
    """A package that was looked up."""
    vulns = [{"id": one, "fix_versions": ["2.0"]} for one in vulnerabilities]
    return {"name": name, "version": "1.0", "vulns": vulns}


def skipped(name: str) -> dict[str, str]:
    """One that the database does not know."""
    return {"name": name, "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([package("orjson"), package("h11")], 0, "2 packages looked up"),
        ([package("orjson", "PYSEC-1")], FOUND, "orjson 1.0: PYSEC-1, fixed in 2.0 (ours)"),
        ([package("Typing_Extensions", "PYSEC-1")], FOUND, "(ours)"),
        ([package("orjson"), package("h11", "PYSEC-1")], 0, "h11 1.0: PYSEC-1, fixed in 2.0 (of a dependency's own)"),
        ([skipped("orjson"), package("h11")], NOT_RUN, "does not know orjson"),
        ([skipped("orjson"), package("typing-extensions", "PYSEC-1")], FOUND, "PYSEC-1"),
        ([skipped("h11"), package("orjson")], 0, "1 packages"),
        ([skipped("h11")], NOT_RUN, "any of the packages"),
        ([], NOT_RUN, "any of the packages"),
    ],
)
def test_the_verdict(packages: list[dict[str, Any]], code: int, said: str) -> None:
    """Only our own dependencies fail; what was not looked up is never taken for good."""
    found, lines = judge({"dependencies": packages}, DIRECT)
    assert found == code
    assert said in "\n".join(lines)


def test_ours_are_those_that_users_get() -> None:
    """Dependencies and extras, without versions, and not what only the tests need."""
    names = direct_dependencies(ROOT / "pyproject.toml")
    assert {"mitmproxy", "orjson"} <= names
    assert "pytest" not in names


def test_without_a_database_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Loudly, and with an exit code of its own."""

    def fail(*_: object) -> dict[str, Any]:
        raise NotRunError("pip failed: no route to host")

    monkeypatch.setattr(audit_dependencies, "audit", fail)
    assert main([]) == NOT_RUN
    assert capsys.readouterr().out == "audit: NOT RUN: pip failed: no route to host\n"
