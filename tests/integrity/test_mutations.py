"""Whatever is changed after publication is found: every single edit of an attempt without raw/, hashes made to fit.

What nothing inside the attempt can contradict is listed here, and in docs/security.md: the books of the run find that.
"""

from pathlib import Path

import pytest

from roller_capture.integrity import validate_attempt
from roller_capture.runs.books import manifest_digest
from roller_capture.runs.outside_books import recorded_hash_problem
from tests.integrity.mutations import Published, edits
from tests.runs.made_run import MadeRun

FREE = frozenset(
    {
        # What was on the wire, and is kept nowhere else.
        "calls.jsonl endpoint/host",
        "calls.jsonl endpoint/method",
        "calls.jsonl endpoint/path",
        "calls.jsonl http/request_headers",
        "calls.jsonl http/request_headers/x-claude-code-agent-id",
        "calls.jsonl http/request_headers/x-claude-code-session-id",
        "calls.jsonl http/request_other_headers",
        "calls.jsonl http/request_other_headers/*",
        "calls.jsonl http/request_version",
        "calls.jsonl http/response_headers",
        "calls.jsonl http/response_headers/content-type",
        "calls.jsonl http/response_headers/content-type/*",
        "calls.jsonl http/response_other_headers",
        "calls.jsonl http/response_other_headers/*",
        "calls.jsonl http/response_version",
        "calls.jsonl http/status",
        "calls.jsonl timing/chunks",
        "calls.jsonl timing/duration_ms",
        "calls.jsonl timing/end",
        "calls.jsonl timing/first_byte",
        "calls.jsonl timing/first_byte_ms",
        "calls.jsonl timing/request_end",
        "calls.jsonl timing/request_start",
        # What the model said, beside ids, usage, finish word and tool calls.
        "calls.jsonl output",
        "calls.jsonl output/content",
        "calls.jsonl output/role",
        "calls.jsonl output/stop_reason",
        "calls.jsonl output/stop_sequence",
        "calls.jsonl output/type",
        # What native logs said.
        "calls.jsonl native_identity/agent_id",
        "calls.jsonl native_identity/evidence",
        "calls.jsonl native_identity/evidence/*/kind",
        "calls.jsonl native_identity/evidence/*/source",
        "calls.jsonl native_identity/session_id",
        "calls.jsonl purpose",
        "manifest.json capabilities/native_output_coverage/protocol_count/expected",
        "manifest.json capabilities/native_output_coverage/protocol_count/name",
        "manifest.json capabilities/native_output_coverage/protocol_count/observed",
        "manifest.json capabilities/native_output_coverage/strength",
        "manifest.json capabilities/native_id_headers",
        "manifest.json capabilities/subtasks",
        "manifest.json participants/*/execution_status",
        "manifest.json participants/*/native_ids",
        "manifest.json participants/*/native_ids/agent_id",
        "manifest.json participants/*/native_ids/session_id",
        "manifest.json participants/*/role",
        "relations.jsonl evidence",
        "relations.jsonl evidence/*",
        "relations.jsonl evidence/*/kind",
        "relations.jsonl evidence/*/locator",
        "relations.jsonl evidence/*/source",
        "relations.jsonl outcome",
        "relations.jsonl task_index",
        # How and when it was recorded, and with what.
        "manifest.json closed_at",
        "manifest.json debug_retention",
        "manifest.json execution_status",
        "manifest.json harness/name",
        "manifest.json harness/tested",
        "manifest.json harness/version",
        "manifest.json lifecycle",
        "manifest.json started_at",
        "manifest.json tool/derivation",
        "manifest.json tool/recorder_version",
        "manifest.json tool/version",
    }
)


@pytest.mark.parametrize("file", ["calls.jsonl", "manifest.json", "relations.jsonl"])
def test_every_edit_is_found_by_the_records_or_by_the_books(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the records alone, but for a closed list; by the run's own hash of the manifest, all of it."""
    run = MadeRun(tmp_path / "run", monkeypatch)
    run.begin()
    sample = run.done("a")
    attempt = run.attempt("a")
    published = Published.read(attempt)
    published.write(attempt)
    sample.note_intent(sample.attempts[0], manifest_digest(attempt))
    assert validate_attempt(attempt, deep=True) == []
    passed: set[str] = set()
    for place, edited in edits(published):
        if place.startswith(file):
            edited.write(attempt)
            if validate_attempt(attempt, deep=True) == []:
                passed.add(place)
                assert recorded_hash_problem(attempt, manifest_digest(attempt)) is not None
    assert passed == {place for place in FREE if place.startswith(file)}


def test_what_only_the_books_find_is_told() -> None:
    """In docs/security.md, each member by its name."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    names = {next(step for step in reversed(place.split(" ")[1].split("/")) if step != "*") for place in FREE}
    assert {name for name in names if f"`{name}`" not in text} == set()
