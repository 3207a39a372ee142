"""Holds one captured run against the truth, and says in words what differs."""

from collections import Counter
from collections.abc import Callable, Iterator

from roller_capture.acceptance.expected import Expected
from roller_capture.acceptance.truth_table import ComparisonError, Relation, TruthTable
from roller_capture.vocabulary import CoverageStatus, CoverageStrength, Purpose


def differences(table: TruthTable, expected: Expected) -> list[str]:
    """What is wrong; empty when the run is as it must be."""
    found: list[str] = []
    for check in (_calls, _participants, _relations, _pointers, _status, _exportable, _valid):
        found += _guarded(check, table, expected)
    return found


def accounting_differences(table: TruthTable, expected: Expected, strength: CoverageStrength) -> list[str]:
    """What is wrong with the account of all calls: what each was made for, and that native outputs and calls cover one
    another. `strength` is how they must have been compared."""
    # How much was marked or logged before a kill is chance: what was is judged, how many is not.
    counted = [] if expected.execution == "interrupted" else [*_purposes(table, expected)]
    return [*counted, *_coverage(table, expected, strength)]


def _guarded(
    check: Callable[[TruthTable, Expected], Iterator[str]], table: TruthTable, expected: Expected
) -> Iterator[str]:
    try:
        yield from check(table, expected)
    except ComparisonError as error:
        yield str(error)


def _calls(table: TruthTable, expected: Expected) -> Iterator[str]:
    """One call per request, none with a wrong owner, and no more without one than must be."""
    lost = table.truth.keys() - table.calls.keys()
    invented = table.calls.keys() - table.truth.keys()
    if lost or invented:
        yield f"{len(lost)} requests are no call, {len(invented)} calls are no request"
    if table.wrong:
        yield f"{len(table.wrong)} calls have a wrong owner"
    if len(table.unattributed) != expected.unattributed:
        yield f"{len(table.unattributed)} calls have no owner, not {expected.unattributed}"


def _participants(table: TruthTable, expected: Expected) -> Iterator[str]:
    """Every agent with its role, its parent and its end."""
    wanted: dict[str, tuple[str, str | None, str]] = {"root": ("root", None, expected.ended.get("root", "completed"))}
    for one in expected.delegations:
        if not one.refused:
            wanted[one.child] = ("child", one.parent, expected.ended.get(one.child, "completed"))
    got = table.participants
    for name in sorted(wanted.keys() | got.keys()):
        if wanted.get(name) != got.get(name):
            yield f"participant {name} is {_words(got.get(name))}, not {_words(wanted.get(name))}"


def _words(participant: tuple[str, str | None, str] | None) -> str:
    if participant is None:
        return "missing"
    role, parent, status = participant
    return f"{role}{f' of {parent}' if parent else ''}, {status}"


def _relations(table: TruthTable, expected: Expected) -> Iterator[str]:
    """Those of each delegation, with the calls that made it and that hold its result; no other."""
    wanted = table.relations_of(expected.delegations)
    for problem, relations in (("missing", wanted - table.relations), ("not true", table.relations - wanted)):
        for relation, count in sorted(_counted(relations).items()):
            yield f"{count} relation{'s' if count > 1 else ''} {relation} {problem}"


def _counted(relations: Counter[Relation]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for relation, count in relations.items():
        counted[f"{relation.type} of {relation.child}"] += count
    return counted


def _pointers(table: TruthTable, _expected: Expected) -> Iterator[str]:
    """Each in-context relation leads to something in its call's request."""
    try:
        count = len(table.context_items)
    except (LookupError, TypeError):
        yield "a context pointer leads to nothing"
        return
    if any(item in (None, "") for _, item in table.context_items[:count]):
        yield "a context pointer leads to something empty"


def _purposes(table: TruthTable, expected: Expected) -> Iterator[str]:
    """What calls were made for, where that is no agent's turn."""
    got = Counter(call["purpose"] for call in table.capture.calls if call["purpose"] != Purpose.AGENT)
    if got != Counter(expected.purposes):
        yield f"calls that are no agent's turns are {dict(sorted(got.items()))}, not {dict(expected.purposes)}"


def _coverage(table: TruthTable, expected: Expected, strength: CoverageStrength) -> Iterator[str]:
    """Each native output has its call, by the key that the harness has; and each answer that the provider gave whole
    its native output, but for those of which the harness keeps none."""
    got = table.capture.manifest["capabilities"]["native_output_coverage"]
    if (got["strength"], got["status"]) != (strength, CoverageStatus.COMPLETE):
        yield f"coverage is {got['status']} by {got['strength']}, not complete by {strength.value}"
    whole = sum(record.answered_whole for record in table.capture.truth)
    if expected.execution == "interrupted":
        return
    if got["expected"] + expected.surplus < whole or got["surplus_calls"] != expected.surplus:
        told = f"{got['expected']} native outputs and {got['surplus_calls']} calls without one"
        yield f"of {whole} whole answers there are {told}, not {expected.surplus} without one"


def _status(table: TruthTable, expected: Expected) -> Iterator[str]:
    """Lifecycle, the reasons for a partial capture and no other, and how the run ended."""
    manifest = table.capture.manifest
    pending = {table.owners[key] for key in manifest["lifecycle"]["pending_participant_ids"]}
    lifecycle = expected.lifecycle or ("pending" if expected.pending else "complete")
    got = {
        "lifecycle": manifest["lifecycle"]["status"],
        "pending": pending,
        "reasons": {reason["code"]: reason["count"] for reason in manifest["status_reasons"]},
        "errors": sorted(error["code"] for error in manifest["errors"]),
        "capture": manifest["capture_status"],
        "execution": manifest["execution_status"],
    }
    wanted = {
        "lifecycle": lifecycle,
        "pending": set(expected.pending),
        "reasons": dict(expected.reasons),
        "errors": sorted(expected.errors),
        "capture": "partial" if expected.reasons else "complete",
        "execution": expected.execution,
    }
    for name, value in wanted.items():
        if got[name] != value:
            yield f"{name} is {got[name]!r}, not {value!r}"


def _exportable(table: TruthTable, _expected: Expected) -> Iterator[str]:
    """The attributed answers that went out whole and ended well, and no others."""
    wanted = table.truly_exportable - set(table.unattributed)
    if table.exportable != wanted:
        yield f"{len(table.exportable)} calls are exportable, not {len(wanted)}, or not the same"


def _valid(table: TruthTable, _expected: Expected) -> Iterator[str]:
    """`validate --deep` finds nothing."""
    if table.capture.validation.returncode != 0:
        yield f"it does not validate: {table.capture.validation.stderr.strip()[:300]}"
