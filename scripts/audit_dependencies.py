#!/usr/bin/env python3
"""Looks up known vulnerabilities of everything that is installed in an environment, with pip-audit.

    scripts/audit_dependencies.py [SITE_PACKAGES]

SITE_PACKAGES is the folder to look at (default: that of the Python that runs this). pip-audit is installed into a
temporary environment of its own, so that it changes nothing. Only a finding for a dependency that pyproject.toml names
for users fails; those of others are printed, for they are the business of whoever names them. One that does not reach
us is listed in audit_exceptions.toml, with the reason and the day until which that is taken for good.

Exit codes: 0 looked up, and nothing found for our own that is no exception; 1 something found, or an exception that
has expired or is written wrong; 3 NOT RUN: pip-audit or its database could not be had within two minutes. A package
that the database does not know counts as not looked up: behind a mirror that has no such database pip-audit itself
says "No known vulnerabilities found".
"""

import datetime
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = Path(__file__).resolve().parent / "audit_exceptions.toml"
SECONDS = 120.0
"""For all of it. Where no index answers, pip alone would try for longer than that."""
PATIENCE = ("--timeout", "10", "--retries", "1")
FOUND, NOT_RUN = 1, 3


class NotRunError(Exception):
    """Nothing could be looked up; says why."""


def normal(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct_dependencies(pyproject: Path) -> set[str]:
    """What a user of the package gets by our word: its dependencies, and those of its extras but `dev`."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = (wanted for name, wanted in project.get("optional-dependencies", {}).items() if name != "dev")
    wanted = [*project["dependencies"], *(item for extra in extras for item in extra)]
    return {normal(match[0]) for item in wanted if (match := re.match(r"[A-Za-z0-9._-]+", item))}


class WrongExceptionsError(Exception):
    """The file of exceptions cannot be used; says why."""


class Exempted(NamedTuple):
    """A finding that does not reach us: all names that it has, and until when the reason is taken for good."""

    ids: frozenset[str]
    package: str
    reason: str
    expires: datetime.date


def read_exceptions(path: Path) -> list[Exempted]:
    """The exceptions, each with `ids`, `package`, `reason`, `expires` (a TOML date). Raises `WrongExceptionsError`."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("exception", [])
    except (OSError, ValueError) as error:
        raise WrongExceptionsError(f"{path.name}: {error}") from None
    if not isinstance(entries, list):
        raise WrongExceptionsError(f"{path.name}: exception is no list of tables")
    return [_exempted(entry, f"{path.name}: exception {number}") for number, entry in enumerate(entries, 1)]


def _exempted(entry: Any, where: str) -> Exempted:
    if not isinstance(entry, dict) or set(entry) != {"ids", "package", "reason", "expires"}:
        raise WrongExceptionsError(f"{where}: needs ids, package, reason and expires, and nothing else")
    ids, package, reason, expires = (entry[name] for name in ("ids", "package", "reason", "expires"))
    if not isinstance(ids, list) or not ids or not all(isinstance(one, str) and one for one in ids):
        raise WrongExceptionsError(f"{where}: ids is no list of names")
    if not all(isinstance(text, str) and text.strip() for text in (package, reason)):
        raise WrongExceptionsError(f"{where}: package and reason are texts that say something")
    if type(expires) is not datetime.date:
        raise WrongExceptionsError(f"{where}: expires is no date")
    return Exempted(frozenset(ids), normal(package), reason.strip(), expires)


def judge(
    report: dict[str, Any], direct: set[str], exceptions: Iterable[Exempted] = (), today: datetime.date | None = None
) -> tuple[int, list[str]]:
    """Exit code and lines for a report of pip-audit."""
    lines: list[str] = []
    found, skipped, checked = 0, [], 0
    day = today or datetime.datetime.now(datetime.UTC).date()
    for package in report["dependencies"]:
        name = normal(package["name"])
        if "skip_reason" in package:
            skipped += [name] if name in direct else []
            continue
        checked += 1
        for problem in package["vulns"]:
            exception = _exception(name, problem, exceptions)
            expired = exception is not None and exception.expires < day
            lines.append(_line(name, package["version"], problem, direct, exception, expired=expired))
            found += expired or (exception is None and name in direct)
    if found:
        return FOUND, lines
    if skipped or not checked:
        lines.append(f"NOT RUN: the database does not know {', '.join(sorted(skipped)) or 'any of the packages'}")
        return NOT_RUN, lines
    return 0, [*lines, f"{checked} packages looked up, nothing that reaches us is known about those that we name"]


def _exception(name: str, problem: dict[str, Any], exceptions: Iterable[Exempted]) -> Exempted | None:
    names = {problem["id"], *problem.get("aliases", ())}
    return next((one for one in exceptions if one.package == name and one.ids & names), None)


def _line(
    name: str, version: str, problem: dict[str, Any], direct: set[str], exception: Exempted | None, *, expired: bool
) -> str:
    fixed = ", ".join(problem.get("fix_versions", ())) or "no version"
    whose = "ours" if name in direct else "of a dependency's own"
    line = f"{name} {version}: {problem['id']}, fixed in {fixed} ({whose})"
    if exception is None:
        return line
    if expired:
        return f"{line}: its exception has expired on {exception.expires}: look at it again"
    return f"{line}: excepted until {exception.expires}: {exception.reason}"


def audit(site_packages: Path) -> dict[str, Any]:
    """pip-audit's report on what is installed there. Raises `NotRunError`."""
    until = time.monotonic() + SECONDS
    with tempfile.TemporaryDirectory(prefix="roller-audit-") as folder:
        venv.create(folder, with_pip=True, symlinks=True)
        python = str(Path(folder) / "bin" / "python")
        quiet = ["--quiet", "--disable-pip-version-check", *PATIENCE]
        _run([python, "-m", "pip", "install", *quiet, "pip-audit"], until)
        wanted = ["--path", str(site_packages), "--aliases", "on", "--format", "json", "--progress-spinner", "off"]
        text = _run([python, "-m", "pip_audit", *wanted], until, good=(0, 1))
    try:
        report = json.loads(text)
        assert isinstance(report["dependencies"], list)
    except (ValueError, KeyError, TypeError, AssertionError):
        raise NotRunError("pip-audit gave no report") from None
    return report  # type: ignore[no-any-return]


def _run(command: Sequence[str], until: float, good: Sequence[int] = (0,)) -> str:
    left = max(0.1, until - time.monotonic())
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=left, check=False)
    except subprocess.TimeoutExpired:
        raise NotRunError(f"{command[2]} had no answer after {SECONDS:.0f} s") from None
    except OSError as error:
        raise NotRunError(f"{command[2]} cannot be started: {error.strerror}") from None
    if process.returncode not in good or not (process.stdout or good == (0,)):
        last = (process.stderr.strip().splitlines() or ["no output"])[-1]
        raise NotRunError(f"{command[2]} failed: {last[:300]}")
    return process.stdout


def main(arguments: Sequence[str]) -> int:
    """The command."""
    site_packages = Path(arguments[0]) if arguments else Path(sysconfig.get_path("purelib"))
    try:
        exceptions = read_exceptions(EXCEPTIONS)
        code, lines = judge(audit(site_packages), direct_dependencies(ROOT / "pyproject.toml"), exceptions)
    except WrongExceptionsError as error:
        code, lines = FOUND, [str(error)]
    except NotRunError as error:
        code, lines = NOT_RUN, [f"NOT RUN: {error}"]
    for line in lines:
        sys.stdout.write(f"audit: {line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
