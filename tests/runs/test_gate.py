"""What Resume decides: reuse, redo, new, finish or refuse, each with the file and the reason."""

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture import finalize_attempt
from roller_capture.collect.outcome import published_outcome
from roller_capture.migrate_command import migrate
from roller_capture.replay import validate_published
from roller_capture.runs.books import SampleState, manifest_digest, read_sample
from roller_capture.runs.check import check_run
from roller_capture.runs.configuration import RunMode
from roller_capture.runs.gate import Action, Decision, decide_all
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.vocabulary import DebugRetention
from tests.integrity.test_validate_attempt import rewrite_call, rewrite_manifest
from tests.runs.made_run import MadeRun, edit
from tests.support import old_attempts
from tests.support.publish import NATIVE_LOG, family_capture

HELLO = SampleSpec("a", ("hello",))


def decide(run: MadeRun, *specs: SampleSpec, redo_partial: bool = False) -> list[Decision]:
    """Nothing in the run is changed by it."""
    before = contents(run.directory)
    decisions = list(decide_all(check_run(run.directory), specs or (HELLO,), redo_partial=redo_partial))
    assert contents(run.directory) == before
    return decisions


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
        if not path.is_fifo()
    }


def partial(run: MadeRun) -> None:
    """A sample whose capture is not complete."""
    sample = run.add("a")
    entry = run.record(sample)
    (run.attempt("a") / "work" / "events.jsonl").open("ab").write(b"{torn")
    sample.settle(entry, run.publish(sample, entry))


def test_what_is_completed_is_reused(run: MadeRun) -> None:
    """The line says by which file."""
    run.done("a")
    (decision,) = decide(run)
    assert decision.action is Action.REUSE
    assert decision.line == "a: reuse: samples/a/capture/attempt-0001/manifest.json: completed, capture complete"


@pytest.mark.parametrize(("redo", "action"), [(False, Action.REUSE), (True, Action.REDO)])
def test_a_partial_capture_is_reused_unless_it_is_to_be_redone(redo: bool, action: Action, run: MadeRun) -> None:
    """`--redo partial`."""
    partial(run)
    (decision,) = decide(run, redo_partial=redo)
    assert decision.action is action
    assert "completed, capture partial" in decision.line


@pytest.mark.parametrize("state", [SampleState.FAILED, SampleState.INTERRUPTED])
def test_what_did_not_complete_is_done_again(state: SampleState, run: MadeRun) -> None:
    """As the next attempt; nothing of the first one is taken away."""
    run.done("a", state=state)
    (decision,) = decide(run)
    assert decision.action is Action.REDO
    assert f"manifest.json: {state}: attempt-0002 follows" in decision.line


def test_samples_that_are_new_and_those_that_nobody_asked_for(run: MadeRun) -> None:
    """In the file's order; what is in the run alone is kept."""
    run.done("a")
    run.done("b", state=SampleState.FAILED)
    run.add("c")
    specs = (SampleSpec("z", ("new",)), SampleSpec("c", ("hello",)), HELLO)
    new, begun, reused, kept = decide(run, *specs)
    assert (new.sample_id, new.action) == ("z", Action.NEW)
    assert (begun.sample_id, begun.action) == ("c", Action.REDO)
    assert "nothing was recorded: attempt-0001 follows" in begun.line
    assert (reused.action, kept.action) == (Action.REUSE, Action.KEEP)
    assert kept.line.startswith("b: keep: is not in the file: ")


def test_a_sample_whose_books_were_never_written_is_new(run: MadeRun) -> None:
    """The kill came between its folder and its first file."""
    run.folder("a").mkdir()
    (run.folder("a") / ".sample.json.0123abcd.tmp").write_text("{")
    (decision,) = decide(run)
    assert decision.action is Action.NEW
    run.add("a")
    assert decide(run)[0].action is Action.REDO


def test_what_was_cut_off_is_finished_first(run: MadeRun) -> None:
    """Killed before publication, or before the clean-up after it."""
    sample = run.add("a")
    entry = run.record(sample, SampleState.INTERRUPTED)
    (decision,) = decide(run)
    assert decision.action is Action.FINISH
    assert "samples/a/capture/attempt-0001/work: was cut off" in decision.line
    run.publish(sample, entry)
    (run.attempt("a") / "work").mkdir()
    (decision,) = decide(run)
    assert decision.action is Action.FINISH


def test_an_attempt_that_never_began_to_record(run: MadeRun) -> None:
    """Its number is used up; an earlier one that completed does not stand for it."""
    sample = run.done("a")
    sample.begin_attempt()
    (decision,) = decide(run)
    assert decision.action is Action.REDO
    assert "nothing was recorded: attempt-0003 follows" in decision.line


def test_a_crash_between_publication_and_bookkeeping(run: MadeRun) -> None:
    """The intended hash is the manifest's: the attempt stands, though the books do not say so yet."""
    sample = run.add("a")
    run.publish(sample, run.record(sample))
    (decision,) = decide(run)
    assert decision.action is Action.REUSE
    assert decision.report is not None
    assert not decision.report.attempts[0].is_settled


def test_an_attempt_that_is_pruned_stands(run: MadeRun) -> None:
    """The hash that comes next was noted before the exchange; before and after it, one of the two fits."""
    sample = run.done("a")
    entry = sample.attempts[0]
    entry.next_manifest_sha256 = "b" * 64
    sample.write()
    assert decide(run)[0].action is Action.REUSE
    entry.next_manifest_sha256, entry.manifest_sha256 = entry.manifest_sha256, "b" * 64
    sample.write()
    assert decide(run)[0].action is Action.REUSE


@pytest.mark.parametrize("make_old", old_attempts.ALL)
def test_attempts_of_earlier_layouts_are_read_as_they_are(make_old: Callable[[Path], None], run: MadeRun) -> None:
    """What they do not say is unknown, and no reason to refuse them."""
    sample = run.add("a")
    entry = run.record(sample)
    run.publish(sample, entry)
    make_old(run.attempt("a"))
    sample.note_intent(entry, manifest_digest(run.attempt("a")))
    decision = decide(run)[0]
    assert decision.report is not None
    (attempt,) = decision.report.attempts
    assert attempt.manifest is not None
    sample.settle(entry, attempt.manifest)
    said = attempt.manifest["execution_status"]
    decision = decide(run)[0]
    assert decision.action is (Action.REUSE if said == "completed" else Action.REDO)
    assert published_outcome("a", attempt.manifest, attempt.place).calls == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"turns": ("another",)}, "the prompt is another one"),
        ({"turns": ("hello", "more")}, "the turns are another one under this id (1 turns, now 2)"),
        ({"workdir": Path("/elsewhere")}, "workdir was the default, now it is /elsewhere"),
        ({"model": "m"}, "model was the default, now it is m"),
        ({"profile": "p"}, "profile was the default, now it is p"),
        ({"harness_args": ("--x",)}, "harness_args are others"),
    ],
)
def test_a_changed_sample_under_an_old_id_is_refused(changes: dict[str, Any], said: str, run: MadeRun) -> None:
    """Also where it failed, and would be run again anyway."""
    for state in (SampleState.COMPLETED, SampleState.FAILED):
        shutil.rmtree(run.folder("a"), ignore_errors=True)
        run.done("a", state=state)
        (decision,) = decide(run, dataclasses.replace(HELLO, **changes))
        assert decision.action is Action.REFUSE
        assert f"samples/a/sample.json: {said}" in decision.line


def by_books(change: Callable[[dict[str, Any]], object]) -> Callable[[MadeRun], None]:
    return lambda run: edit(run.folder("a") / "sample.json", change)


def in_entry(**members: Any) -> Callable[[MadeRun], None]:
    return by_books(lambda document: document["attempts"][0].update(members))


def append(name: str) -> Callable[[MadeRun], None]:
    def change(run: MadeRun) -> None:
        with (run.attempt("a") / name).open("ab") as stream:
            stream.write(b"\n")

    return change


def raise_status(run: MadeRun) -> None:
    """What somebody does who wants a failed sample to count."""
    edit(run.attempt("a") / "manifest.json", lambda manifest: manifest.update(execution_status="failed"))


def edit_to_match(run: MadeRun) -> None:
    """A call is changed and the manifest's hashes with it: only the run's own record tells."""
    rewrite_call(0, native_identity={"session_id": ["other"], "evidence": []})(run.attempt("a"))
    rewrite_manifest(run.attempt("a"), lambda _manifest: None)


def link_in_place_of(name: str) -> Callable[[MadeRun], None]:
    def change(run: MadeRun) -> None:
        path = run.folder("a") / name
        moved = run.directory.parent / "moved"
        path.rename(moved)
        path.symlink_to(moved)

    return change


def copy_from_another(run: MadeRun) -> None:
    """A good attempt of another sample in the place of this one's, with books that fit."""
    run.done("b")
    shutil.rmtree(run.attempt("a"))
    shutil.copytree(run.attempt("b"), run.attempt("a"))
    other = read_sample(run.folder("b"), RunMode.CAPTURED).attempts[0].manifest_sha256
    in_entry(manifest_sha256=other)(run)


@pytest.mark.parametrize(
    ("tamper", "file", "said"),
    [
        (append("calls.jsonl"), "capture/attempt-0001/calls.jsonl", ""),
        (append("relations.jsonl"), "capture/attempt-0001/relations.jsonl", ""),
        (append("manifest.json"), "capture/attempt-0001/manifest.json", "was changed after publication"),
        (append("added"), "capture/attempt-0001/added", "is not in the manifest"),
        (raise_status, "capture/attempt-0001/manifest.json", ""),
        (edit_to_match, "capture/attempt-0001", ""),
        (lambda run: (run.attempt("a") / "calls.jsonl").unlink(), "calls.jsonl", "is missing"),
        (lambda run: (run.attempt("a") / "manifest.json").unlink(), "manifest.json", "is missing"),
        (lambda run: shutil.rmtree(run.attempt("a")), "capture/attempt-0001/manifest.json", "is missing"),
        (lambda run: shutil.rmtree(run.folder("a") / "capture"), "manifest.json", "is missing"),
        (lambda run: run.attempt("a", 2).mkdir(), "capture/attempt-0002", "is no attempt that sample.json knows"),
        (lambda run: (run.folder("a") / "uncaptured").mkdir(), "uncaptured", "cannot be mixed"),
        (lambda run: (run.folder("a") / "sample.json").unlink(), "sample.json", "is missing"),
        (lambda run: (run.folder("a") / "sample.json").write_text("{"), "sample.json", "is no JSON"),
        (lambda run: (run.folder("a") / "sample.json").write_text("[]"), "sample.json", ""),
        (lambda run: (run.folder("a") / "sample.json").write_bytes(b"\xff"), "sample.json", "is no JSON"),
        (link_in_place_of("sample.json"), "sample.json", "it is a link"),
        (link_in_place_of("capture"), "capture/attempt-0001", "a link or a file"),
        (link_in_place_of("capture/attempt-0001"), "capture/attempt-0001", "a link or a file"),
        (link_in_place_of("capture/attempt-0001/manifest.json"), "manifest.json", ""),
        (in_entry(manifest_sha256="0" * 64), "manifest.json", "was changed after publication"),
        (in_entry(capture_status="partial"), "manifest.json", "sample.json says capture partial"),
        (in_entry(capture_status=None, manifest_sha256="0" * 64), "manifest.json", "was changed after publication"),
        (by_books(lambda document: document.update(id="b")), "sample.json", "the folder is 'a'"),
        (by_books(lambda document: document.update(attempts=[])), "sample.json", "its newest attempt's is running"),
        (copy_from_another, "manifest.json", "capture_id is the one of sample"),
    ],
)
def test_whatever_was_changed_is_found_before_a_model_runs(
    tamper: Callable[[MadeRun], None], file: str, said: str, run: MadeRun
) -> None:
    """One line with the file; what is wrong with one sample is said of no other."""
    run.done("a")
    tamper(run)
    decisions = decide(run, HELLO, SampleSpec("c", ("new",)))
    refused = [decision for decision in decisions if decision.action is Action.REFUSE]
    assert len(refused) == 1
    line = refused[0].line
    assert file in line
    assert said in line
    assert "\n" not in line


def test_a_status_that_was_raised_in_the_books_is_found(run: MadeRun) -> None:
    """The manifest says how it was executed."""
    run.done("a", state=SampleState.FAILED)
    edit(
        run.folder("a") / "sample.json",
        lambda document: (document.update(state="completed"), document["attempts"][0].update(state="completed")),
    )
    (decision,) = decide(run)
    assert decision.action is Action.REFUSE
    assert "execution_status is failed, but sample.json says completed" in decision.line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda document: document.pop("mode"), "mode: "),
        (lambda document: document.update(mode="half"), "mode: "),
        (lambda document: document.update(format="roller.run/v9"), "format: "),
        (lambda document: document.update(extra=1), "extra: "),
        (lambda document: document.update(timeout="60"), "timeout: "),
        (lambda document: document.update(harness={"name": "claude-code"}), "harness.version: "),
        (lambda document: document["harness_args"].update(sha256="x"), "harness_args.sha256: "),
    ],
)
def test_a_run_file_that_somebody_has_edited(
    change: Callable[[dict[str, Any]], object], said: str, run: MadeRun
) -> None:
    """Then nothing else is looked at."""
    run.done("a")
    edit(run.directory / "run.json", change)
    report = check_run(run.directory)
    assert report.run is None
    (finding,) = report.findings
    assert finding.file == "run.json"
    assert said in finding.message


def test_a_run_file_that_is_none(run: MadeRun) -> None:
    """Missing, a link, a folder, no JSON."""
    path = run.directory / "run.json"
    moved = path.rename(run.directory.parent / "run.json")

    def problem() -> str:
        (finding,) = check_run(run.directory).findings
        return finding.message

    assert problem() == "is missing"
    path.symlink_to(moved)
    assert problem() == "cannot be read (it is a link)"
    path.unlink()
    path.write_bytes(b"\x00")
    assert problem().startswith("is no JSON")
    path.unlink()
    path.mkdir()
    assert problem().startswith("cannot be read")


def test_what_is_no_sample_is_found(run: MadeRun) -> None:
    """Among the samples; hidden files are those of file managers and of interrupted writes."""
    run.done("a")
    (run.directory / "samples" / ".DS_Store").write_text("")
    (run.directory / "samples" / "a b").mkdir()
    assert [finding.file for finding in check_run(run.directory).findings] == ["samples/a b"]
    shutil.move(run.directory / "samples", run.directory.parent / "samples")
    (run.directory / "samples").symlink_to(run.directory.parent / "samples")
    assert [finding.file for finding in check_run(run.directory).findings] == ["samples"]


def test_uncaptured_samples_go_by_their_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no manifest to go by."""
    run = MadeRun(tmp_path / "run", monkeypatch)
    run.begin(mode=RunMode.UNCAPTURED, wire_trace=False)
    for name, state in (("a", SampleState.COMPLETED), ("b", SampleState.FAILED)):
        sample = run.add(name)
        sample.mode = RunMode.UNCAPTURED
        entry, place = sample.begin_attempt()
        place.mkdir()
        sample.end_attempt(entry, state)
    reused, redone = decide(run, HELLO, SampleSpec("b", ("hello",)))
    assert (reused.action, redone.action) == (Action.REUSE, Action.REDO)


STEP = {"type": "assistant", "message": {"id": "msg_1"}}


@pytest.mark.parametrize(
    ("name", "document", "said"),
    [
        ("sft.jsonl", [STEP, STEP | {"isSidechain": True}], "line 2: isSidechain is true"),
        (
            "actf.json",
            {"steps": [STEP, {"a": [STEP | {"parent_tool_use_id": "toolu_1"}]}]},
            "parent_tool_use_id is set",
        ),
        (
            "out/trajectory.json",
            {"steps": [STEP, {"message": {"id": "msg_2"}}]},
            "id msg_2 is a response to a subagent",
        ),
        ("capture/attempt-0001/sft.jsonl", [{"response_id": "msg_2"}], "response_id msg_2"),
        ("sft.jsonl", [STEP, "no object", [STEP | {"is_sidechain": True}]], "line 3: is_sidechain is true"),
        ("sft.jsonl", "{torn\n" + json.dumps(STEP | {"isSidechain": True}), "line 2: isSidechain is true"),
    ],
)
def test_an_old_sample_whose_main_trajectory_holds_subagent_steps(
    name: str, document: Any, said: str, run: MadeRun
) -> None:
    """It is refused with the protocol's advice; found by marks and ids, never by text."""
    run.done("a")
    path = run.folder("a") / name
    path.parent.mkdir(exist_ok=True)
    lines = "\n".join(map(json.dumps, document)) if isinstance(document, list) else json.dumps(document, indent=1)
    path.write_text(document if isinstance(document, str) else lines)
    (decision,) = decide(run)
    assert decision.action is Action.REFUSE
    assert f"samples/a/{name}: the main trajectory holds steps of subagents ({said}" in decision.line
    assert "new --run-dir" in decision.line
    assert "no attempt of it has the raw/ that roller-capture migrate --from-raw would project anew" in decision.line


def test_the_command_that_an_old_sample_is_refused_with_works(run: MadeRun) -> None:
    """It projects a copy anew from what `raw/` holds; the sample stays as it is."""
    run.retention = DebugRetention.FULL
    run.done("a")
    (run.folder("a") / "sft.jsonl").write_text(json.dumps(STEP | {"isSidechain": True}))
    (decision,) = decide(run)
    found = re.search(r"roller-capture migrate --from-raw (\S+) --output COPY", decision.line)
    assert found is not None
    copy = run.directory.with_name("copy")
    run.monkeypatch.setattr(
        finalize_attempt, "find_adapter", lambda _name: lambda source: family_capture(source.native_root / NATIVE_LOG)
    )
    assert migrate(Path(found[1]), copy, from_raw=True) == 0
    assert validate_published(copy / "capture" / "attempt-0001", deep=True) == []


@pytest.mark.parametrize(
    "document",
    [
        [STEP, {"toolUseResult": {"agentId": "a1"}, "parent_tool_use_id": None, "isSidechain": False}],
        [{"message": {"id": "msg_3"}, "text": "isSidechain: true, msg_2"}],
        ["no object", 1, None],
        [],
    ],
)
def test_a_main_trajectory_of_its_own_steps_is_no_old_sample(document: list[Any], run: MadeRun) -> None:
    """What the root says of its children is the root's."""
    run.done("a")
    (run.folder("a") / "sft.jsonl").write_text("\n".join(map(json.dumps, document)))
    (run.folder("a") / "notes.json").write_text("{ no JSON")
    assert decide(run)[0].action is Action.REUSE


def test_a_trajectory_that_is_too_large_to_look_into(run: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can vouch for it, so it is no sample to go on with; lines have no such bound."""
    run.done("a")
    monkeypatch.setattr("roller_capture.runs.old_trajectories._LARGEST", 200)
    (run.folder("a") / "sft.jsonl").write_text("\n".join([json.dumps(STEP)] * 10))
    assert decide(run)[0].action is Action.REUSE
    (run.folder("a") / "actf.json").write_text(json.dumps([STEP] * 10, indent=1))
    assert "actf.json: has more than 200 bytes: whether it holds steps of subagents" in decide(run)[0].line


def test_a_root_that_owns_an_agent_s_calls_is_an_old_sample(run: MadeRun) -> None:
    """The calls themselves are mixed: then every trajectory made of them would be."""
    sample = run.add("a")
    entry = run.record(sample)
    run.publish(sample, entry)
    rewrite_call(0, native_identity={"session_id": ["s"], "agent_id": ["a1"], "evidence": []})(run.attempt("a"))
    report = check_run(run.directory).samples[0]
    assert [finding.message for finding in report.mixed] == [
        "the root's calls hold steps of subagents (line 1 names agent ['a1'])"
    ]
