#!/usr/bin/env python3
"""Looks up known vulnerabilities of everything that is installed in an environment, with pip-audit.

    scripts/audit_dependencies.py [SITE_PACKAGES]

SITE_PACKAGES is the folder to look at (default: that of the Python that runs this). pip-audit is installed into a
temporary environment of its own, so that it changes nothing. Only a finding for a dependency that pyproject.toml names
for users fails; those of others are printed, for they are the business of whoever names them.

Exit codes: 0 looked up, and nothing found for our own; 1 something found; 3 NOT RUN: pip-audit or its database could
not be had. A package that the database does not know counts as not looked up: behind a mirror that has no such database
pip-audit itself says "No known vulnerabilities found".
"""

import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 600
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


def judge(report: dict[str, Any], direct: set[str]) -> tuple[int, list[str]]:
    """Exit code and lines for a report of pip-audit."""
    lines: list[str] = []
    found, skipped, checked = [], [], 0
    for package in report["dependencies"]:
        name = normal(package["name"])
        if "skip_reason" in package:
            skipped += [name] if name in direct else []
            continue
        checked += 1
        for problem in package["vulns"]:
            fixed = ", ".join(problem.get("fix_versions", ())) or "no version"
            whose = "ours" if name in direct else "of a dependency's own"
            lines.append(f"{name} {package['version']}: {problem['id']}, fixed in {fixed} ({whose})")
            found += [name] if name in direct else []
    if found:
        return FOUND, lines
    if skipped or not checked:
        lines.append(f"NOT RUN: the database does not know {', '.join(sorted(skipped)) or 'any of the packages'}")
        return NOT_RUN, lines
    return 0, [*lines, f"{checked} packages looked up, nothing known about those that we name"]


def audit(site_packages: Path) -> dict[str, Any]:
    """pip-audit's report on what is installed there. Raises `NotRunError`."""
    with tempfile.TemporaryDirectory(prefix="roller-audit-") as folder:
        venv.create(folder, with_pip=True, symlinks=True)
        python = str(Path(folder) / "bin" / "python")
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pip-audit"])
        wanted = ["--path", str(site_packages), "--format", "json", "--progress-spinner", "off"]
        text = _run([python, "-m", "pip_audit", *wanted], good=(0, 1))
    try:
        report = json.loads(text)
        assert isinstance(report["dependencies"], list)
    except (ValueError, KeyError, TypeError, AssertionError):
        raise NotRunError("pip-audit gave no report") from None
    return report  # type: ignore[no-any-return]


def _run(command: Sequence[str], good: Sequence[int] = (0,)) -> str:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRunError(type(error).__name__) from None
    if process.returncode not in good or not (process.stdout or good == (0,)):
        last = (process.stderr.strip().splitlines() or ["no output"])[-1]
        raise NotRunError(f"{command[2]} failed: {last[:300]}")
    return process.stdout


def main(arguments: Sequence[str]) -> int:
    """The command."""
    site_packages = Path(arguments[0]) if arguments else Path(sysconfig.get_path("purelib"))
    try:
        code, lines = judge(audit(site_packages), direct_dependencies(ROOT / "pyproject.toml"))
    except NotRunError as error:
        code, lines = NOT_RUN, [f"NOT RUN: {error}"]
    for line in lines:
        sys.stdout.write(f"audit: {line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
