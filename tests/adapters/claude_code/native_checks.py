"""What must hold of every `NativeCapture`, whatever the logs were."""

import re
from pathlib import Path

from roller_capture import json_text
from roller_capture.capture_protocol import AdapterInput, Evidence, NativeCapture
from roller_capture.vocabulary import AttemptErrorCode, RelationType

_LOCATOR = re.compile(r"line:([1-9]\d*)((?: [a-z_]+:\S+)*)")
_DELIVERED = {RelationType.RESULT_DELIVERED, RelationType.LAUNCH_ACKNOWLEDGED}
_NATIVE = _DELIVERED | {RelationType.SPAWN, RelationType.CHILD_COMPLETED, RelationType.CHILD_FAILED}


def assert_sound(native: NativeCapture) -> None:
    """Every key names a participant, every relation has what its type needs, every locator resolves."""
    keys = [participant.key for participant in native.participants]
    assert len(keys) == len(set(keys))
    known = set(keys)
    for participant in native.participants:
        assert participant.parent_key is None or participant.parent_key in known - {participant.key}
        assert participant.evidence
    for claim in (*native.identity_claims, *native.absent_header_claims, *(native.coverage.outputs or ())):
        assert claim.participant_key in known
    for relation in (*native.relations, *(probe.relation for probe in native.context_probes)):
        assert relation.type in _NATIVE
        assert relation.child_key in known
        assert {relation.parent_key, relation.receiver_key} <= known | {None}
        assert relation.evidence
        assert relation.delegation >= 1
        assert (relation.delivery is not None) == (relation.type in _DELIVERED)
        assert relation.type not in _DELIVERED or relation.parent_key is not None
    assert all(probe.relation in native.relations for probe in native.context_probes)
    assert AttemptErrorCode.ADAPTER_FAILED not in {gap.code for gap in native.gaps}
    _assert_locators_resolve(native)


def _all_evidence(native: NativeCapture) -> list[Evidence]:
    single = [
        item.evidence
        for item in (
            *native.identity_claims,
            *native.absent_header_claims,
            *native.purpose_claims,
            *(native.coverage.outputs or ()),
        )
    ]
    many = [item for owner in (*native.participants, *native.relations) for item in owner.evidence]
    return single + many


def _assert_locators_resolve(native: NativeCapture) -> None:
    files = {source.source: source.path.read_bytes() for source in native.sources}
    lines = {name: data.split(b"\n") for name, data in files.items()}
    for evidence in set(_all_evidence(native)):
        assert evidence.source in files
        if evidence.locator.startswith("json:"):
            json_text.resolve_pointer(json_text.parse(files[evidence.source]), evidence.locator[5:])
            continue
        match = _LOCATOR.fullmatch(evidence.locator)
        assert match is not None, evidence.locator
        line = lines[evidence.source][int(match[1]) - 1]
        for part in match[2].split():
            assert part.partition(":")[2].encode() in line, evidence.locator


def wire_headers(calls: list[dict[str, object]]) -> dict[str, frozenset[str]]:
    """The identity headers of recorded calls as `AdapterInput` wants them."""
    found: dict[str, set[str]] = {}
    for call in calls:
        headers = call["headers"]
        assert isinstance(headers, dict)
        for name, value in headers.items():
            found.setdefault(name, set()).add(value)
    return {name: frozenset(values) for name, values in found.items()}


def recorded_run(folder: Path) -> tuple[AdapterInput, list[dict[str, object]]]:
    """The adapter's input and the calls of a recorded run: a folder with `native/` and `calls.json`."""
    calls = json_text.parse((folder / "calls.json").read_bytes())
    launcher = folder / "native" / "launcher.json"
    named = json_text.parse(launcher.read_bytes()) if launcher.exists() else {}
    return AdapterInput(folder / "native", wire_headers(calls), named), calls
