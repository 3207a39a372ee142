"""`validate`, `export` and `view` of a bucket: what is said and written is what this machine's copy would give."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self, cast

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.export.sources import AttemptTally, Source, _open_job, find_sources, opened
from roller_capture.pool import Job, Workers
from roller_capture.remote import place
from roller_capture.remote.elsewhere import Elsewhere
from tests.remote.conftest import ATTEMPT, RUN, SAMPLE, SAMPLES, Command, Put, tree
from tests.remote.s3_server import BUCKET, S3Server
from tests.support.redone import redone_run
from tests.view.html.page_data import PageData


def said(text: str, folder: Path) -> str:
    """What a command has said of a folder, as it would of the bucket."""
    return text.replace(str(folder), RUN)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_is_validated_with_its_books(
    jobs: str, command: Command, in_bucket: Put, published: Path, server: S3Server, tmp_path: Path
) -> None:
    """Also what is damaged, and what the books say otherwise; every word is the same."""
    run = tmp_path / "first"
    files = tree(published)
    files[f"{ATTEMPT}/calls.jsonl"] += b"{}\n"
    second = "samples/sample-00002"
    files[f"{second}/sample.json"] = files[f"{second}/sample.json"].replace(
        b'"manifest_sha256": "', b'"manifest_sha256": "0'
    )
    for name, body in {**files, "samples/a stray file": b""}.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(body)
    here = command("validate", run, "--deep", "--json")
    in_bucket(run)
    there = command("validate", RUN, "--deep", "--json", "--jobs", jobs, "--junit", tmp_path / "junit.xml")
    assert here.returncode == there.returncode == 1
    assert there.stdout == said(here.stdout, run)
    assert f'name="{RUN}/{ATTEMPT}"' in (tmp_path / "junit.xml").read_text()
    assert str(tmp_path) not in (tmp_path / "junit.xml").read_text()
    assert server.changes == []


def test_one_attempt_is_validated_with_the_hash_in_its_books(
    command: Command, in_bucket: Put, published: Path, server: S3Server
) -> None:
    in_bucket(published)
    good = command("validate", f"{RUN}/{ATTEMPT}")
    assert (good.returncode, good.stderr) == (0, f"{RUN}/{ATTEMPT}: valid (capture complete)\n")
    sample = f"runs/first/{ATTEMPT.partition('/capture')[0]}/sample.json"
    books = server.objects()[sample]
    digest = books.partition(b'"manifest_sha256": "')[2][:64]
    server.put({sample: books.replace(digest, b"0" * 64)})
    bad = command("validate", f"{RUN}/{ATTEMPT}")
    assert bad.returncode == 1
    assert "manifest.json" in bad.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("below", ["", f"/{ATTEMPT}"], ids=["run", "attempt"])
def test_an_attempt_that_the_books_there_do_not_know_is_not_exported(
    below: str, jobs: str, command: Command, in_bucket: Put, published: Path, server: S3Server, tmp_path: Path
) -> None:
    """By itself it is valid."""
    in_bucket(published)
    sample = f"runs/first/{ATTEMPT.partition('/capture')[0]}/sample.json"
    books = server.objects()[sample]
    digest = books.partition(b'"manifest_sha256": "')[2][:64]
    server.put({sample: books.replace(digest, b"0" * 64)})
    done = command("export", "calls", f"{RUN}{below}", "--output", tmp_path / "rows.jsonl", "--jobs", jobs)
    assert done.returncode == 1
    assert f"{RUN}/{ATTEMPT}: does not validate: manifest.json: was changed after publication" in done.stderr


@pytest.mark.parametrize("below", ["", f"/{SAMPLE}", f"/{SAMPLE}/capture", f"/{ATTEMPT}"])
def test_an_attempt_of_another_harness_than_the_runs_is_neither_valid_nor_exported(
    below: str, command: Command, in_bucket: Put, published: Path, server: S3Server, tmp_path: Path
) -> None:
    """The run's configuration is fetched, too, also where it lies above the place that was named."""
    in_bucket(published)
    configuration = server.objects()["runs/first/run.json"]
    server.put({"runs/first/run.json": configuration.replace(b'"claude-code"', b'"codex"')})
    for words in (("validate",), ("export", "har", "--output", tmp_path / "a.har")):
        done = command(*words, f"{RUN}{below}")
        assert done.returncode == 1, words
        assert done.stderr.count("harness is claude-code, the run's is codex") == (1 if below else SAMPLES)
    assert not (tmp_path / "a.har").exists()


def test_a_run_that_is_a_whole_bucket_knows_its_attempts(
    command: Command, published: Path, server: S3Server, tmp_path: Path
) -> None:
    """Above the samples is only the bucket's name."""
    server.put(tree(published))
    assert command("validate", f"s3://{BUCKET}/{ATTEMPT}").returncode == 0
    server.put({"run.json": server.objects()["run.json"].replace(b'"claude-code"', b'"codex"')})
    for below in ("", f"/{SAMPLE}", f"/{ATTEMPT}"):
        done = command("export", "har", f"s3://{BUCKET}{below}", "--output", tmp_path / "a.har")
        assert (done.returncode, "the run's is codex" in done.stderr) == (1, True)


@pytest.mark.parametrize("url", [f"s3://{BUCKET}/nothing", "s3://no-such-bucket/run"])
def test_a_place_where_nothing_is_is_a_wrong_call(url: str, command: Command) -> None:
    for arguments in (("validate", url), ("finalize", url), ("view", url), ("export", "har", url, "--output", "x.har")):
        done = command(*arguments)
        assert done.returncode == 2, done.stderr
        assert done.stderr == f"error: {url}: does not exist\n"


@pytest.mark.parametrize(("kind", "jobs"), [("calls", "2"), ("main", "1"), ("har", "1"), ("otel", "1")])
def test_exports_are_the_same_bytes_in_and_out(
    kind: str, jobs: str, command: Command, in_bucket: Put, published: Path, server: S3Server, tmp_path: Path
) -> None:
    many = ["--jobs", jobs] if kind in ("calls", "main") else []
    in_bucket(published)
    (tmp_path / "out").mkdir()
    name = {"har": "first.har"}.get(kind, "first.jsonl")
    here = command("export", kind, published, "--output", tmp_path / "out" / name)
    there = command("export", kind, RUN, "--output", f"s3://{BUCKET}/out/{name}", *many)
    assert here.returncode == there.returncode == 0, there.stderr
    assert server.objects("out/") == tree(tmp_path / "out")
    assert there.stderr == said(here.stderr, published).replace(str(tmp_path), f"s3://{BUCKET}")
    assert server.changes[-1] == ("PUT", f"out/{name}")
    again = command("export", kind, RUN, "--output", f"s3://{BUCKET}/out/{name}")
    assert again.returncode == 2
    assert "is there already: name another file, or give --overwrite" in again.stderr
    assert command("export", kind, RUN, "--output", f"s3://{BUCKET}/out/{name}", "--overwrite").returncode == 0


def test_a_folder_of_trajectories_is_sent_as_a_whole(
    command: Command, in_bucket: Put, published: Path, server: S3Server, tmp_path: Path
) -> None:
    in_bucket(published)
    assert command("export", "atif", published, "--output", tmp_path / "out").returncode == 0
    there = command("export", "atif", RUN, "--output", f"s3://{BUCKET}/out")
    assert there.returncode == 0, there.stderr
    assert server.objects("out/") == tree(tmp_path / "out")
    again = command("export", "atif", RUN, "--output", f"s3://{BUCKET}/out")
    assert (again.returncode, "is not empty" in again.stderr) == (2, True)


def test_a_full_bucket_gets_no_half_of_an_export(
    command: Command, in_bucket: Put, published: Path, server: S3Server
) -> None:
    in_bucket(published)
    server.refuses = lambda method, key: (method, key) == ("PUT", "out/first.jsonl")
    done = command("export", "calls", RUN, "--output", f"s3://{BUCKET}/out/first.jsonl")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: s3://{BUCKET}/out/first.jsonl: cannot be written (")
    assert done.stderr.endswith(": nothing was exported\n")
    assert server.objects("out/") == {}


def test_a_bucket_is_no_place_for_an_export(command: Command, published: Path) -> None:
    done = command("export", "calls", published, "--output", f"s3://{BUCKET}", "--format", "jsonl")
    assert (done.returncode, done.stderr) == (
        2,
        f"error: --output s3://{BUCKET}: is a bucket: name what to write in it\n",
    )


@pytest.mark.parametrize("options", [(), ("--overwrite",)])
@pytest.mark.parametrize(("kind", "name"), [("calls", "rows.jsonl"), ("har", "a.har"), ("atif", "all")])
def test_a_bucket_that_does_not_exist_is_told_before_anything_is_read(
    kind: str, name: str, options: tuple[str, ...], command: Command, in_bucket: Put, published: Path, server: S3Server
) -> None:
    in_bucket(published)
    server.hides = lambda key: key.endswith("/calls.jsonl")
    done = command("export", kind, RUN, "--output", f"s3://no-such-bucket/out/{name}", *options)
    told = f"error: s3://no-such-bucket/out/{name}: there is no bucket no-such-bucket: make it first\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_a_bucket_that_may_not_be_looked_at_can_be_written(command: Command, published: Path, server: S3Server) -> None:
    """A key may have the right to write alone."""
    server.hides = lambda key: not key.startswith("out/")  # what is asked of the bucket itself
    done = command("export", "har", published, "--output", f"s3://{BUCKET}/out/a.har", "--overwrite")
    assert done.returncode == 0, done.stderr
    assert ("PUT", "out/a.har") in server.done


def test_no_export_goes_into_an_attempt(command: Command, in_bucket: Put, published: Path, server: S3Server) -> None:
    in_bucket(published)
    done = command("export", "calls", RUN, "--output", f"{RUN}/{ATTEMPT}/out.jsonl")
    assert done.returncode == 2
    assert f"lies in the attempt {RUN}/{ATTEMPT}" in done.stderr
    assert server.changes == []


def test_view_shows_a_bucket(command: Command, in_bucket: Put, published: Path, tmp_path: Path) -> None:
    in_bucket(published)
    for path in ("", f"/{ATTEMPT}"):
        for options in ([], ["--json"]):
            here, there = (command("view", f"{base}{path}", *options) for base in (published, RUN))
            assert there.returncode == 0, there.stderr
            assert there.stdout == said(here.stdout, published)
    assert command("view", RUN, "--html", tmp_path / "page.html").returncode == 0
    page = PageData(tmp_path / "page.html")
    told = b"".join(page.blocks.values())
    assert f"{RUN}/{ATTEMPT}".encode() in told
    assert str(tmp_path).encode() not in told
    assert command("view", RUN, "--live").returncode == 2


def test_a_sample_that_is_a_whole_bucket_is_valid(command: Command, published: Path, server: S3Server) -> None:
    """Its books know it by the bucket's name."""
    folder = Path(SAMPLE).name
    server.put(
        {
            name: body.replace(f'"{folder}"'.encode(), f'"{BUCKET}"'.encode()) if name == "sample.json" else body
            for name, body in tree(published / SAMPLE).items()
        }
    )
    done = command("validate", f"s3://{BUCKET}")
    assert done.returncode == 0, done.stderr


def test_view_shows_the_others_when_an_attempt_cannot_be_fetched(
    command: Command, in_bucket: Put, published: Path, server: S3Server, tmp_path: Path
) -> None:
    """As a line with the reason; that it is missing is no success."""
    in_bucket(published)
    server.hides = lambda key: key.endswith(f"{ATTEMPT}/calls.jsonl")
    reason = f"{RUN}/{ATTEMPT}/calls.jsonl: cannot be read (PermissionError"
    done = command("view", RUN, "--json")
    shown = {row["path"]: row for row in json.loads(done.stdout)["attempts"]}
    assert (done.returncode, len(shown)) == (1, SAMPLES)
    assert shown[f"{RUN}/{ATTEMPT}"]["error"].startswith(reason)
    assert shown[f"{RUN}/samples/sample-00002/capture/attempt-0001"]["calls"] == 6
    assert done.stderr.startswith(f"error: {reason}")
    table = command("view", RUN)
    assert (table.returncode, "calls.jsonl: cannot be read" in table.stdout) == (1, True)
    assert "samples/sample-00002/capture/attempt-0001" in table.stdout
    page = command("view", RUN, "--html", tmp_path / "page.html")
    assert (page.returncode, page.stderr.startswith(f"error: {reason}")) == (1, True)
    assert reason.encode() in b"".join(PageData(tmp_path / "page.html").blocks.values())
    alone = command("view", f"{RUN}/{ATTEMPT}")
    assert (alone.returncode, alone.stdout) == (1, "")


def test_view_shows_why_when_no_attempt_can_be_fetched(
    command: Command, in_bucket: Put, published: Path, server: S3Server
) -> None:
    in_bucket(published)
    server.hides = lambda key: key.endswith("/calls.jsonl")
    done = command("view", RUN, "--json")
    assert done.returncode == 1
    assert ["cannot be read" in row["error"] for row in json.loads(done.stdout)["attempts"]] == [True] * SAMPLES


def test_an_attempt_that_was_made_again_is_told_when_the_newer_one_cannot_be_fetched(
    command: Command, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = redone_run(tmp_path / "first", monkeypatch)
    server.put({f"runs/first/{name}": body for name, body in tree(made.directory).items()})
    server.hides = lambda key: key.endswith("attempt-0002/calls.jsonl")
    done = command("view", f"{RUN}/samples/again", "--json")
    older, newer = json.loads(done.stdout)["attempts"]
    assert (done.returncode, older["superseded"], "error" in newer) == (1, True, True)


@pytest.mark.parametrize("below", ["", "/samples/again", "/samples/again/capture"])
def test_a_sample_that_was_made_again_counts_once(below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the books of the sample that lie there."""
    made = redone_run(tmp_path / "run", monkeypatch)
    said = []
    for base in (str(made.directory), f"file://{made.directory}"):
        command = ["export", "har", f"{base}{below}", "--output", str(tmp_path / "a.har"), "--overwrite", "--json"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.stderr
        said.append((json.loads(result.stdout), (tmp_path / "a.har").read_bytes()))
    assert said[0] == said[1]
    assert said[0][0]["attempts_superseded"] == 1


class OtherMachine:
    """A pool of another machine, where nothing of the command's own folders is."""

    are_needed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def pool(self) -> Self:
        return self

    def each(self, jobs: Iterable[Job[Source]]) -> Iterator[tuple[Source, object]]:
        for job in jobs:
            folder = job.item.remote
            assert folder is not None
            there = replace(folder, path=Path("/nowhere") / folder.path.name / "run")
            yield job.item, _open_job(job.item._replace(remote=there), lambda _: None)


def test_what_another_machine_cannot_bring_here_is_read_here(published: Path) -> None:
    """Attempts that were validated on another node of a Ray cluster; one at a time lies on this machine."""
    with Elsewhere() as elsewhere:
        [folder] = elsewhere.inputs([place(f"file://{published}")])
        tally = AttemptTally()
        sources = find_sources([folder], tally, all_attempts=False)
        for source, attempt in opened(sources, tally, cast("Workers", OtherMachine())):
            assert [item.path.exists() for item in sources] == [item is source for item in sources]
            assert sum(1 for _ in attempt.calls()) == 6
        assert (tally.read, tally.refused) == (SAMPLES, [])
        assert not any(source.path.exists() for source in sources)
