"""What the audit of dependencies makes of pip-audit's reports."""

import datetime
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts import audit_dependencies
from scripts.audit_dependencies import (
    EXCEPTIONS,
    FOUND,
    NOT_RUN,
    ROOT,
    Exempted,
    NotRunError,
    WrongExceptionsError,
    direct_dependencies,
    judge,
    main,
    read_exceptions,
)

DIRECT = {"orjson", "typing-extensions"}


def package(name: str, *vulnerabilities: str) -> dict[str, Any]:
    """A package that was looked up."""
    vulns = [{"id": one, "fix_versions": ["2.0"]} for one in vulnerabilities]
    return {"name": name, "version": "1.0", "vulns": vulns}


TODAY = datetime.date(2026, 11, 30)


def exempted(expires: datetime.date = TODAY, package_name: str = "orjson") -> Exempted:
    """An exception for GHSA-1, which the database also calls PYSEC-1."""
    return Exempted(frozenset({"GHSA-1"}), package_name, "it is in a part that we do not use", expires)


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


@pytest.mark.parametrize(
    ("exception", "code", "said"),
    [
        (exempted(), 0, "excepted until 2026-11-30: it is in a part that we do not use"),
        (exempted(TODAY - datetime.timedelta(days=1)), FOUND, "has expired on 2026-11-29: look at it again"),
        (exempted(package_name="h11"), FOUND, "PYSEC-1, fixed in 2.0 (ours)"),
    ],
)
def test_an_exception_holds_for_one_finding_until_its_day(exception: Exempted, code: int, said: str) -> None:
    """By any name of the finding, of this package alone; and it is told."""
    problem = {"id": "PYSEC-1", "aliases": ["CVE-1", "GHSA-1"], "fix_versions": ["2.0"]}
    report = {"dependencies": [{"name": "orjson", "version": "1.0", "vulns": [problem]}]}
    found, lines = judge(report, DIRECT, [exception], TODAY)
    assert found == code
    assert said in "\n".join(lines)


def test_an_exception_hides_no_other_finding() -> None:
    """Of the same package."""
    problems = [{"id": "GHSA-1", "fix_versions": []}, {"id": "PYSEC-2", "fix_versions": ["3.0"]}]
    report = {"dependencies": [{"name": "orjson", "version": "1.0", "vulns": problems}]}
    found, lines = judge(report, DIRECT, [exempted()], TODAY)
    assert found == FOUND
    assert "PYSEC-2, fixed in 3.0 (ours)" in "\n".join(lines)


def test_our_exceptions_are_of_our_dependencies_and_give_reasons() -> None:
    """Each says what it concerns, under a name that the databases know, and who it does reach."""
    exceptions = read_exceptions(EXCEPTIONS)
    assert {one.package for one in exceptions} <= direct_dependencies(ROOT / "pyproject.toml")
    for one in exceptions:
        assert all(re.fullmatch(r"(CVE|GHSA|PYSEC)-\S+", name) for name in one.ids)
        assert "It does reach" in one.reason


@pytest.mark.parametrize(
    "text",
    [
        "[[exception]]\nids = []\npackage = 'a'\nreason = 'b'\nexpires = 2027-01-01",
        "[[exception]]\nids = ['X']\npackage = 'a'\nreason = ' '\nexpires = 2027-01-01",
        "[[exception]]\nids = ['X']\npackage = 'a'\nreason = 'b'\nexpires = 'never'",
        "[[exception]]\nids = ['X']\npackage = 'a'\nreason = 'b'",
        "exception = 1",
        "exception = [1]",
        "[[",
    ],
)
def test_an_exception_without_reason_or_day_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, before anything is looked up."""
    path = tmp_path / "exceptions.toml"
    path.write_text(text)
    with pytest.raises(WrongExceptionsError):
        read_exceptions(path)
    monkeypatch.setattr(audit_dependencies, "EXCEPTIONS", path)
    monkeypatch.setattr(audit_dependencies, "audit", lambda _path: pytest.fail("looked up"))
    assert main([]) == FOUND
    assert capsys.readouterr().out.count("\n") == 1


def test_who_has_no_answer_is_not_waited_for() -> None:
    """A machine without a network goes on."""
    with pytest.raises(NotRunError, match="had no answer"):
        audit_dependencies._run([sys.executable, "-c", "import time; time.sleep(600)"], time.monotonic())
