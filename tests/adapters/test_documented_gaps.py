"""Every gap that an adapter can name has its name on the page of its harness, where a user looks for it."""

import re
from pathlib import Path

import pytest

from roller_capture.harnesses import HARNESSES
from roller_capture.vocabulary import AttemptErrorCode

_PACKAGE = Path(__file__).resolve().parents[2]
_ADAPTERS = _PACKAGE / "roller_capture" / "adapters"
_CODE = re.compile(r"\bAttemptErrorCode\.([A-Z_]+)")
_SHARED = re.compile(r"from roller_capture\.adapters\.([a-z_]+) import")


def _sources(harness: str) -> list[str]:
    """The sources of an adapter, and those of the shared modules that it uses."""
    name = harness.replace("-", "_")
    own = sorted((_ADAPTERS / name).glob("*.py")) or [_ADAPTERS / f"{name}.py"]
    texts = [path.read_text(encoding="utf-8") for path in own]
    shared = {module for text in texts for module in _SHARED.findall(text)} - {name}
    return [*texts, *((_ADAPTERS / f"{module}.py").read_text(encoding="utf-8") for module in sorted(shared))]


@pytest.mark.parametrize("harness", HARNESSES)
def test_each_gap_stands_on_the_page_of_its_harness(harness: str) -> None:
    """What a capture calls partial has to be found in the documents under that word."""
    texts = _sources(harness)
    codes = {AttemptErrorCode[name] for text in texts for name in _CODE.findall(text)}
    if any("hook_header=" in text for text in texts):
        codes.add(AttemptErrorCode.HOOK_NOT_SEEN)
    assert len(codes) >= 6
    page = (_PACKAGE / "docs" / "harnesses" / f"{harness}.md").read_text(encoding="utf-8")
    assert sorted(code.value for code in codes if f"`{code.value}`" not in page) == []
