"""`--compress`: the same attempt in every reader's eyes, and as hard to change."""

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard
from typer.testing import CliRunner

from roller_capture import iter_attempts, open_attempt
from roller_capture.calls_file import CompressingWriter
from roller_capture.calls_file.seekable import table_frame
from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.migrate import migrate_attempt
from roller_capture.prune import prune_attempt
from roller_capture.replay import replay_findings
from roller_capture.runs.check import AttemptStatus, check_run
from roller_capture.view.command import view
from roller_capture.view.html import command
from roller_capture.vocabulary import DebugRetention, ExecutionStatus
from tests.collect.rig import Rig
from tests.export.families import publish_generations
from tests.integrity.test_validate_attempt import rewrite_manifest
from tests.runs.made_run import MadeRun, edit
from tests.support.attempts import AttemptBuilder, native_capture, participant
from tests.support.publish import publish_family, use_capture

ZST = "calls.jsonl.zst"


def expanded(attempt: Path) -> bytes:
    """What Zstandard itself makes of it."""
    stream = zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO((attempt / ZST).read_bytes()), read_across_frames=True
    )
    return stream.read()


def compressed(data: bytes) -> bytes:
    out = io.BytesIO()
    writer = CompressingWriter(out.write)
    writer.write(data)
    writer.finish()
    return out.getvalue()


def manifest_of(attempt: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((attempt / "manifest.json").read_bytes())
    return document


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The same recording published twice, plain and compressed, both with raw/."""
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for place, compress in ((plain, False), (packed, True)):
        publish_family(
            place,
            monkeypatch,
            compress=compress,
            debug_retention=DebugRetention.FULL,
            execution_status=ExecutionStatus.COMPLETED,
        )
    return plain, packed


@pytest.fixture
def packed(twins: tuple[Path, Path]) -> Path:
    return twins[1]


def test_it_expands_to_the_plain_file_and_all_else_is_the_same(twins: tuple[Path, Path]) -> None:
    """The manifest says what stands there, and what it expands to."""
    plain, packed = twins
    calls = (plain / "calls.jsonl").read_bytes()
    assert expanded(packed) == calls
    assert not (packed / "calls.jsonl").exists()
    assert (packed / "relations.jsonl").read_bytes() == (plain / "relations.jsonl").read_bytes()
    before, now = manifest_of(plain), manifest_of(packed)
    assert now.pop("calls_compression") == {
        "format": "zstd-seekable",
        "expanded": {"sha256": hashlib.sha256(calls).hexdigest(), "bytes": len(calls)},
    }
    listed = now["files"].pop(ZST)
    data = (packed / ZST).read_bytes()
    assert listed == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    del before["files"]["calls.jsonl"]
    assert now == before


def test_it_validates_also_deep_and_derived_again(packed: Path) -> None:
    """Evidence and body references into calls.jsonl mean lines of the expansion."""
    assert validate_attempt(packed) == []
    assert validate_attempt(packed, deep=True) == []
    assert replay_findings(packed) == []


def test_view_api_and_export_give_the_same(twins: tuple[Path, Path], tmp_path: Path) -> None:
    """Word for word, but for the folder's name and the manifest's own hash."""
    texts, contexts, rows = [], [], []
    for place in twins:
        text = io.StringIO()
        assert view(place, stream=text) == 0
        texts.append(text.getvalue().replace(place.name, "NAME"))
        contexts.append([(call.record, call.context_text) for call in open_attempt(place).calls()])
        output = tmp_path / f"{place.name}.out.jsonl"
        result = CliRunner().invoke(
            app, ["export", "calls", str(place), "--purpose", "unknown", "--output", str(output)]
        )
        assert result.exit_code == 0, result.output
        rows.append([json.loads(line) for line in output.read_bytes().splitlines()])
    assert texts[0] == texts[1]
    assert contexts[0] == contexts[1]
    assert len(contexts[0]) == 3
    own = ("attempt", "manifest_path", "manifest_sha256")
    stripped = [[{name: row[name] for name in row if name not in own} for row in each] for each in rows]
    assert stripped[0] == stripped[1]
    assert len(rows[0]) == 3


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["export", "calls", "--as", "chat"], "rows.jsonl"),
        (["export", "calls", "--format", "parquet"], "rows.parquet"),
        (["export", "main"], "main.jsonl"),
        (["export", "main", "--as", "sft"], "main.jsonl"),
        (["export", "otel", "--content"], "spans.jsonl"),
        (["export", "har"], "calls.har"),
        (["export", "atif"], "trajectory.json"),
        (["view", "--html"], "page.html"),
        (["view", "--json"], None),
        (["validate", "--deep", "--json"], None),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else str(value),
)
def test_every_reader_takes_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], output: str | None
) -> None:
    """Read in the same place, each gives the same, but for the manifest's hash and the name of the file of calls."""
    monkeypatch.setattr(command, "datetime", SimpleNamespace(now=lambda zone: datetime(2026, 1, 2, tzinfo=zone)))
    given = []
    for compress in (False, True):
        attempt = publish_generations(tmp_path / "attempt", monkeypatch, compress=compress)
        assert (attempt / ZST).exists() is compress
        digest = hashlib.sha256((attempt / "manifest.json").read_bytes()).hexdigest()
        file = None if output is None else tmp_path / output
        named = [] if file is None else [str(file)] if arguments[-1] == "--html" else ["--output", str(file)]
        result = CliRunner().invoke(app, [*arguments, *named, str(attempt)])
        assert result.exit_code == 0, result.output
        data = result.stdout.encode() if file is None else file.read_bytes()
        if output is None or not output.endswith((".parquet", ".html")):
            data = data.replace(digest.encode(), b"DIGEST")
        given.append(rows_of(file) if output == "rows.parquet" and file is not None else data)
        shutil.rmtree(attempt)
        for left in tmp_path.glob(f"{output}*"):
            left.unlink()
    assert given[0] == given[1]
    assert given[0]


def rows_of(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(file).drop_columns(["manifest_sha256"]).to_pylist()
    return rows


def test_contexts_may_be_asked_for_in_any_order(packed: Path) -> None:
    """And not from another file than the one that was opened."""
    calls = list(open_attempt(packed).calls())
    texts = [call.context_text for call in calls]
    assert [call.context_text for call in reversed(calls)] == texts[::-1]
    (packed / ZST).write_bytes(compressed(expanded(packed)) + b"")
    with pytest.raises(RollerError, match="has changed since the attempt was opened"):
        _ = calls[0].context_text


def test_prune_keeps_the_form(packed: Path) -> None:
    """And corrects the hash of the expansion, which has other response paths now."""
    before = manifest_of(packed)["calls_compression"]["expanded"]["sha256"]
    prune_attempt(packed)
    assert sorted(path.name for path in packed.iterdir()) == [ZST, "manifest.json", "relations.jsonl"]
    assert validate_attempt(packed, deep=True) == []
    assert manifest_of(packed)["calls_compression"]["expanded"]["sha256"] != before
    assert all(json.loads(line)["response_path"] is None for line in expanded(packed).splitlines())


def test_migrate_keeps_the_form(packed: Path, tmp_path: Path) -> None:
    """Derived anew from raw/."""
    migrate_attempt(packed, tmp_path / "copy", from_raw=True)
    assert expanded(tmp_path / "copy") == expanded(packed)
    assert validate_attempt(tmp_path / "copy", deep=True) == []


def test_an_attempt_without_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No frame, and a table of none."""
    builder = AttemptBuilder(tmp_path / "attempt")
    builder.build()
    use_capture(monkeypatch, native_capture(participant("root")))
    finalize_attempt(builder.directory, FinalizeRequest(compress=True))
    assert validate_attempt(builder.directory, deep=True) == []
    assert list(open_attempt(builder.directory).calls()) == []


def test_a_crash_in_the_middle_is_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of an interrupted publication is one of ours: finalize begins anew, also in the other form."""
    attempt = tmp_path / "attempt"
    publish_family(attempt, monkeypatch, compress=True)
    saved = (attempt / ZST).read_bytes()
    shutil.rmtree(attempt)
    attempt.mkdir()
    (attempt / ZST).write_bytes(saved)
    publish_family(attempt, monkeypatch, debug_retention=DebugRetention.OFF)
    assert sorted(path.name for path in attempt.iterdir()) == ["calls.jsonl", "manifest.json", "relations.jsonl"]
    assert validate_attempt(attempt) == []


def replaced(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Another file, its hash and size in `files` corrected, as a careful forger would."""

    def tamper(attempt: Path) -> None:
        (attempt / ZST).write_bytes(change((attempt / ZST).read_bytes()))
        rewrite_manifest(attempt, lambda _manifest: None)

    return tamper


def in_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda attempt: edit(attempt / "manifest.json", change)


def bomb(_data: bytes) -> bytes:
    """Two gigabytes of one line, in 17 kilobytes or so."""
    frame = zstandard.ZstdCompressor(level=9).compress(bytes(64 * 1024 * 1024))
    return frame * 32 + table_frame([(len(frame), 64 * 1024 * 1024)] * 32)


TAMPERED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "one byte": (
        lambda attempt: (attempt / ZST).write_bytes((attempt / ZST).read_bytes()[:-1] + b"\0"),
        ZST,
        "was changed",
    ),
    "missing": (lambda attempt: (attempt / ZST).unlink(), ZST, "is missing"),
    "torn": (replaced(lambda data: data[:-9]), ZST, "no seek table"),
    "garbage": (replaced(lambda _data: b"garbage " * 9), ZST, "no seek table"),
    "a bomb": (replaced(bomb), ZST, "expands to 2147483648 bytes, the manifest says"),
    "something hidden before it": (replaced(lambda data: b"secret" + data), ZST, "does not account for all"),
    "another text of the same length": (
        replaced(lambda data: compressed(b"x" * len(zstandard.decompress(data)))),
        ZST,
        "expands to another sha256",
    ),
    "both forms": (
        lambda attempt: (attempt / "calls.jsonl").write_bytes(expanded(attempt)),
        "calls.jsonl",
        "is not in the manifest",
    ),
    "both forms, both listed": (
        lambda attempt: (
            (attempt / "calls.jsonl").write_bytes(b"") or True,
            in_manifest(lambda m: m["files"].update({"calls.jsonl": m["files"][ZST]}))(attempt),
        ),
        "manifest.json",
        "'calls.jsonl', which is no path of a published file",
    ),
    "compression that the manifest does not tell": (
        in_manifest(lambda m: m.pop("calls_compression")),
        "manifest.json",
        "calls_compression does not say",
    ),
    "another hash of the expansion": (
        in_manifest(lambda m: m["calls_compression"]["expanded"].update(sha256="0" * 64)),
        ZST,
        "expands to another sha256",
    ),
    "another size of the expansion": (
        in_manifest(lambda m: m["calls_compression"]["expanded"].update(bytes=7)),
        ZST,
        "the manifest says 7",
    ),
    "a format of tomorrow": (
        in_manifest(lambda m: m["calls_compression"].update(format="zstd-2")),
        "manifest.json",
        "/calls_compression: ",
    ),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_whatever_is_changed_is_found(kind: str, packed: Path) -> None:
    """In one finding that names the file; the API refuses it, `view` shows what there is or says why not."""
    tamper, file, words = TAMPERED[kind]
    tamper(packed)
    findings = validate_attempt(packed, deep=True)
    assert [(finding.file, words in finding.message) for finding in findings] == [(file, True)], findings
    with pytest.raises(RollerError, match="does not validate"):
        open_attempt(packed)
    result = CliRunner().invoke(app, ["view", str(packed)])
    assert result.exception is None or isinstance(result.exception, SystemExit | RollerError)


def test_compression_that_is_not_there_is_found(twins: tuple[Path, Path]) -> None:
    """The member beside a plain file."""
    plain, packed = twins
    member = manifest_of(packed)["calls_compression"]
    in_manifest(lambda m: m.update(calls_compression=member))(plain)
    (finding,) = validate_attempt(plain)
    assert (finding.file, "calls_compression does not say" in finding.message) == ("manifest.json", True)


def test_resume_checks_it_like_any_other(run: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Valid as it is, and not when a byte is another one."""
    monkeypatch.setattr(
        "tests.runs.made_run.FinalizeRequest", lambda **members: FinalizeRequest(**members, compress=True)
    )
    run.done("a")
    place = run.attempt("a")
    assert (place / ZST).exists()
    (sample,) = check_run(run.directory).samples
    assert [attempt.status for attempt in sample.attempts] == [AttemptStatus.VALID]
    assert [attempt.capture_id for attempt in iter_attempts(run.directory)] == [manifest_of(place)["capture_id"]]
    data = bytearray((place / ZST).read_bytes())
    data[20] ^= 1
    (place / ZST).write_bytes(data)
    (sample,) = check_run(run.directory).samples
    assert [(path.name, words.split(":")[0]) for path, words in sample.problems()] == [(ZST, "was changed")]


def test_the_option_of_finalize(tmp_path: Path) -> None:
    """Off by default; what is published stays in its form, and that is said."""
    from tests.support.publish import family_attempt

    family_attempt(tmp_path / "one").build()
    family_attempt(tmp_path / "two").build()
    runner = CliRunner()
    assert runner.invoke(app, ["finalize", str(tmp_path / "one"), "--compress"]).exit_code == 0
    assert runner.invoke(app, ["finalize", str(tmp_path / "two")]).exit_code == 0
    assert (tmp_path / "one" / ZST).exists()
    assert (tmp_path / "two" / "calls.jsonl").exists()
    again = runner.invoke(app, ["finalize", str(tmp_path / "two"), "--compress"])
    assert again.exit_code == 0
    assert "published is final: the options given now had no effect" in again.stderr
    assert not (tmp_path / "two" / ZST).exists()


def test_the_option_of_collect(rig: Rig) -> None:
    """The attempt is published by another process, in this form; Resume without the option reuses it."""
    result = rig.collect("hello", compress=True)
    assert result.exit_code == 0, result.err
    assert result.manifest["counts"]["calls"] == len(expanded(result.attempt).splitlines()) == 1
    again = rig.collect("hello", resume=True)
    assert (again.exit_code, "reuse" in again.err) == (0, True)


def test_many_samples_are_compressed_by_the_processes_beside_collect(rig: Rig) -> None:
    """Each of them."""
    samples = rig.samples({"id": "a", "prompt": "one"}, {"id": "b", "prompt": "two"})
    result = rig.collect(samples=samples, jobs=2, compress=True)
    assert result.exit_code == 0, result.err
    assert len(list(result.run_dir.glob(f"samples/*/capture/attempt-0001/{ZST}"))) == 2
