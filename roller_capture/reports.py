"""What was checked, in the forms that CI reads: JUnit XML, and annotations of GitHub's workflow commands."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from roller_capture.errors import RollerError
from roller_capture.integrity.findings import Finding
from roller_capture.remote import Place
from roller_capture.terminal import safe

_GOOD: Final = frozenset(("valid", "unfinished-allowed"))
_LINE: Final = re.compile(r"(.+):([0-9]{1,9})")
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SUITE: Final = "roller-capture validate"


@dataclass(frozen=True, slots=True)
class Checked:
    """One thing that was checked: an `attempt`, the books of a `sample`, a `run`, or a `path` that is none of them."""

    kind: str
    path: Place
    status: str
    findings: tuple[Finding, ...] = ()
    capture_status: str | None = None
    sample: str | None = None
    note: str | None = None
    """What was not looked at, of something that is good."""
    exit_code: int = field(default=-1)

    def __post_init__(self) -> None:
        if self.exit_code < 0:
            object.__setattr__(self, "exit_code", int(not self.is_good))

    @property
    def is_good(self) -> bool:
        """Nothing is wrong with it."""
        return self.status in _GOOD

    def file_of(self, finding: Finding) -> tuple[Place, int | None]:
        """The file that a finding is about, and the line where it names one."""
        match = _LINE.fullmatch(finding.file)
        name, line = (match[1], int(match[2])) if match else (finding.file, None)
        return (self.path if self.kind == "path" or name in ("", self.path.name) else self.path / name), line


def annotation_lines(result: Checked) -> Iterator[str]:
    """A workflow command for each finding; escaped, so that no name or message can end it or begin another one."""
    level = "warning" if result.is_good else "error"
    for finding in result.findings:
        path, line = result.file_of(finding)
        place = f"file={_property(str(path))}" + (f",line={line}" if line is not None else "")
        yield f"::{level} {place},title={_property(_SUITE)}::{_data(finding.message)}"


def _data(text: str) -> str:
    return safe(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def write_junit(path: Path, results: Sequence[Checked]) -> None:
    """A JUnit XML file, whole or not at all. Raises `RollerError` (exit 2) when it cannot be written."""
    data = ElementTree.tostring(_document(results), encoding="utf-8", xml_declaration=True) + b"\n"
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):
            os.unlink(temporary)  # noqa: PTH108 - also where the name itself is what cannot be
        reason = getattr(error, "strerror", None) or error
        raise RollerError(f"--junit {path}: cannot be written ({reason})", exit_code=2) from None


def _document(results: Sequence[Checked]) -> ElementTree.Element:
    failed = sum(not result.is_good for result in results)
    counts = {"name": _SUITE, "tests": str(len(results)), "failures": str(failed), "errors": "0", "time": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", counts)
    for result in results:
        group = f"{result.kind}.{result.sample}" if result.sample else result.kind
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": _xml(group), "name": _xml(str(result.path)), "time": "0"}
        )
        lines = "\n".join(f"{finding.file}: {finding.message}" for finding in result.findings)
        if not result.is_good:
            first = result.findings[0].message if result.findings else result.status
            failure = ElementTree.SubElement(case, "failure", {"type": result.status, "message": _xml(first)})
            failure.text = "\n".join(_xml(line) for line in lines.split("\n"))
        elif lines:
            ElementTree.SubElement(case, "system-out").text = _xml(lines)
    return suites


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", safe(text))
