"""`finalize s3://…`: the outcome is that of this machine, and a bucket that fails at any moment loses nothing."""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.finalize_command import FinalizeCommand, run_finalize
from roller_capture.remote import place
from tests.remote.conftest import ATTEMPT, RUN, SAMPLE, SAMPLES, Command, Put, tree
from tests.remote.s3_server import BUCKET, Objects, S3Server
from tests.runs.made_run import MadeRun

WORK = f"{ATTEMPT}/work/"
FINALIZE = (sys.executable, "-m", "roller_capture", "finalize")


def in_run(server: S3Server) -> Objects:
    return server.objects("runs/first/")


def finalize(url: str) -> int:
    return run_finalize(FinalizeCommand((place(url),), FinalizeRequest()))


def test_a_run_is_published_with_the_same_bytes(
    command: Command, server: S3Server, in_bucket: Put, recorded: Path, published: Path
) -> None:
    """Files and books; a second time nothing changes."""
    in_bucket(recorded)
    done = command("finalize", RUN)
    assert done.returncode == 0, done.stderr
    assert [line.split(": ")[0] for line in done.stderr.splitlines()] == [
        f"{RUN}/samples/sample-{number:05}/capture/attempt-0001" for number in range(1, SAMPLES + 1)
    ]
    assert in_run(server) == tree(published)
    server.changes.clear()
    again = command("finalize", RUN)
    assert (again.returncode, again.stderr.count("was published before")) == (0, SAMPLES)
    assert server.changes == []


def test_compressed_calls_are_published_and_read_there_as_here(
    command: Command, server: S3Server, in_bucket: Put, recorded: Path, tmp_path: Path
) -> None:
    """By every kind of command, byte for byte."""
    in_bucket(recorded)
    here = tmp_path / "first"
    shutil.copytree(recorded, here)
    for run in (RUN, str(here)):
        assert command("finalize", run, "--compress").returncode == 0
    assert in_run(server) == tree(here)
    assert f"{ATTEMPT}/calls.jsonl.zst" in tree(here)
    given = []
    for run in (RUN, str(here)):
        output = tmp_path / "rows.jsonl"
        said = [command("validate", run, "--deep"), command("export", "calls", run, "--output", output)]
        given.append(([one.returncode for one in said], output.read_bytes()))
        for left in tmp_path.glob("rows.jsonl*"):
            left.unlink()
    assert given[0] == given[1]
    assert given[0][0] == [0, 0]


def test_a_sample_may_be_called_as_the_folder_of_working_files(
    command: Command, server: S3Server, recorded: Path
) -> None:
    folder = Path(SAMPLE).name
    for name, body in tree(recorded).items():
        told = body.replace(folder.encode(), b"work") if name.endswith("/sample.json") else body
        server.put({f"runs/first/{name.replace(SAMPLE, 'samples/work')}": told})
    done = command("finalize", RUN)
    assert done.returncode == 0, done.stderr
    manifests = [name for name in in_run(server) if name.endswith("/manifest.json")]
    assert manifests == [f"samples/{name}/capture/attempt-0001/manifest.json" for name in ("sample-00002", "work")]


@pytest.mark.parametrize("below", ["", "/samples"])
def test_the_books_of_such_a_sample_are_no_working_files(
    below: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be published as an attempt, and removed."""
    made = MadeRun(tmp_path / "run", monkeypatch)
    made.begin()
    made.add("work")
    before = tree(made.directory)
    done = command("finalize", f"file://{made.directory}{below}", "--harness", "claude-code")
    assert (done.returncode, "holds no attempt" in done.stderr) == (1, True)
    assert tree(made.directory) == before


def test_several_workers_publish_the_same_bytes(
    command: Command, server: S3Server, in_bucket: Put, recorded: Path, published: Path
) -> None:
    """Those of a Ray cluster are `tests/pool/test_ray_pool.py`."""
    in_bucket(recorded)
    done = command("finalize", RUN, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert in_run(server) == tree(published)


def test_a_command_that_is_killed_loses_nothing(
    server: S3Server, in_bucket: Put, recorded: Path, published: Path, copies: Path
) -> None:
    """Before the manifest arrives, and the next one before the last working file is gone."""
    in_bucket(recorded, SAMPLE)
    for last in ("manifest.json", "work/events.jsonl"):
        with subprocess.Popen([*FINALIZE, f"{RUN}/{ATTEMPT}"], stderr=subprocess.DEVNULL) as process:

            def kill(_method: str, key: str, last: str = last, process: "subprocess.Popen[bytes]" = process) -> bool:
                if key.endswith(f"{ATTEMPT}/{last}"):
                    process.kill()
                    process.wait()
                    return True
                return False

            server.refuses = kill
        assert process.returncode == -signal.SIGKILL
        assert check_nothing_lost(in_run(server), tree(recorded)) is (last != "manifest.json")
        server.refuses = lambda _method, _key: False
    assert list(copies.iterdir())
    assert finalize(f"{RUN}/{ATTEMPT}") == 0
    assert in_run(server) == of_sample(tree(published))


def test_a_command_that_is_told_to_stop_leaves_no_copy(
    server: S3Server, in_bucket: Put, recorded: Path, copies: Path
) -> None:
    in_bucket(recorded)
    with subprocess.Popen([*FINALIZE, RUN], stderr=subprocess.PIPE) as process:

        def stop(_method: str, key: str) -> bool:
            if key.endswith("calls.jsonl") and process.poll() is None:
                assert list(copies.iterdir())
                process.send_signal(signal.SIGTERM)
            return False

        server.refuses = stop
        _, said = process.communicate()
    assert (process.returncode, said) == (128 + signal.SIGTERM, b"")
    assert list(copies.iterdir()) == []
    assert check_nothing_lost(in_run(server), tree(recorded)) is False


@pytest.mark.parametrize(
    ("during", "name", "body", "words"),
    [
        ("sample.json", "manifest.json", b"{}", "nothing was published, somebody else has just published it"),
        ("sample.json", "work/more", b"", "nothing was published, work/more was added while the others were read"),
        ("sample.json", "work/attempt.json", None, "published, work/attempt.json was changed while it was read"),
        ("sample.json", "notes.txt", b"mine", "nothing was published, notes.txt was added"),
        ("relations.jsonl", "calls.jsonl", None, "nothing was published, calls.jsonl did not arrive there as it was"),
        ("manifest.json", "calls.jsonl", None, "is published, but not tidied up, calls.jsonl was written by somebody"),
        ("manifest.json", "work/more", b"", "it is published, but not tidied up, work/more was added"),
    ],
)
def test_what_somebody_else_does_in_the_meantime_is_left_alone(
    during: str,
    name: str,
    body: bytes | None,
    words: str,
    server: S3Server,
    in_bucket: Put,
    recorded: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Another one publishes it, or writes on, also as many bytes as there were, while it is read and sent."""
    in_bucket(recorded, SAMPLE)

    def meanwhile(method: str, key: str) -> bool:
        if (method, key.rpartition("/")[2]) == ("PUT", during):  # the books: when all is read, and nothing sent
            server.refuses = lambda _method, _key: False
            size = 0 if body is not None else len(server.objects(f"runs/first/{ATTEMPT}/{name}")[""])
            other = b"x" * size if body is None else body
            server.client.put_object(Bucket=BUCKET, Key=f"runs/first/{ATTEMPT}/{name}", Body=other)
        return False

    server.refuses = meanwhile
    assert finalize(f"{RUN}/{ATTEMPT}") == 1
    assert words in capfd.readouterr().err
    there, working = in_run(server), set(tree(recorded / WORK))
    assert (f"{ATTEMPT}/manifest.json" in there) is (name == "manifest.json" or during == "manifest.json")
    assert (f"{ATTEMPT}/calls.jsonl" in there) is (during != "sample.json")
    assert {file.removeprefix(WORK) for file in there if file.startswith(WORK)} >= working
    assert there[f"{ATTEMPT}/{name}"].strip(b"x") == (body or b"")


def test_books_that_cannot_be_looked_for_are_not_taken_for_none(
    server: S3Server, in_bucket: Put, recorded: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    in_bucket(recorded, SAMPLE)
    server.hides = lambda key: key.endswith("sample.json")
    assert finalize(f"{RUN}/{ATTEMPT}") == 1
    assert f"{SAMPLE}/sample.json: cannot be looked for (PermissionError" in capfd.readouterr().err
    assert server.changes == []


def test_an_attempt_may_be_the_whole_bucket(
    command: Command, server: S3Server, recorded: Path, published: Path
) -> None:
    """There is nothing above it then, no books either."""
    server.put(tree(recorded / ATTEMPT))
    url = f"s3://{BUCKET}"
    assert command("finalize", url).stderr.startswith(f"{url}: published, capture complete: 6 calls")
    assert server.objects() == tree(published / ATTEMPT)
    assert command("validate", url).stderr == f"{url}: valid (capture complete)\n"
    assert command("view", url).stdout.startswith(f"{url}\n")


def test_what_a_cut_publication_left_is_replaced(server: S3Server, in_bucket: Put, recorded: Path) -> None:
    """Also files that this publication does not have."""
    in_bucket(recorded, SAMPLE)
    for name in ("calls.jsonl", "calls.jsonl.zst", "raw/events.jsonl", ".publishing-ab/calls.jsonl"):
        server.put({f"runs/first/{ATTEMPT}/{name}": b"half"})
    assert finalize(f"{RUN}/{ATTEMPT}") == 0
    names = {name.removeprefix(f"{ATTEMPT}/") for name in in_run(server) if name.startswith(ATTEMPT)}
    assert names == {"calls.jsonl", "relations.jsonl", "manifest.json"}


def test_a_foreign_file_is_refused_as_on_this_machine(
    server: S3Server, in_bucket: Put, recorded: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    in_bucket(recorded, SAMPLE)
    server.put({f"runs/first/{ATTEMPT}/notes.txt": b"mine"})
    assert finalize(f"{RUN}/{ATTEMPT}") == 1
    assert f"{RUN}/{ATTEMPT}/notes.txt: is no file of the attempt: move it away" in capfd.readouterr().err
    assert server.changes == []


def test_a_folder_by_its_url_gets_what_the_same_folder_by_its_path_gets(
    recorded: Path, published: Path, tmp_path: Path
) -> None:
    """A file system that is no bucket: no empty folder of the working files stays, and all is private."""
    shutil.copytree(recorded, tmp_path / "first")
    assert finalize(f"file://{tmp_path}/first") == 0
    assert tree(tmp_path / "first") == tree(published)
    assert {path.name for path in (tmp_path / "first" / ATTEMPT).iterdir()} == {
        "calls.jsonl",
        "relations.jsonl",
        "manifest.json",
    }
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "first" / ATTEMPT).iterdir()} == {0}


def test_the_manifest_comes_last_and_the_working_files_go_then(
    server: S3Server, in_bucket: Put, recorded: Path
) -> None:
    in_bucket(recorded, SAMPLE)
    assert finalize(f"{RUN}/{ATTEMPT}") == 0
    names = [(method, key.removeprefix(f"runs/first/{ATTEMPT}/")) for method, key in server.changes]
    sample, *files = names[: names.index(("PUT", "manifest.json"))]
    assert sample == ("PUT", "runs/first/samples/sample-00001/sample.json")
    assert files == [("PUT", "calls.jsonl"), ("PUT", "relations.jsonl")]
    removed = names[len(files) + 2 :]
    assert removed
    assert all(method == "DELETE" and name.startswith("work/") for method, name in removed)


def check_nothing_lost(objects: Objects, recorded: Objects) -> bool:
    """Is it published? Then it is whole; else all working files are."""
    manifest = objects.get(f"{ATTEMPT}/manifest.json")
    if manifest is None:
        working = {name: body for name, body in recorded.items() if name.startswith(WORK)}
        assert {name: body for name, body in objects.items() if name.startswith(WORK)} == working
        return False
    for name, info in json.loads(manifest)["files"].items():
        assert hashlib.sha256(objects[f"{ATTEMPT}/{name}"]).hexdigest() == info["sha256"]
    return True


def of_sample(objects: Objects) -> Objects:
    return {name: body for name, body in objects.items() if name.startswith(SAMPLE)}


def test_a_bucket_that_is_full_from_any_request_on_loses_nothing(
    server: S3Server, in_bucket: Put, recorded: Path, published: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each time one clear line, and the same command gets a request further: books, calls, relations, manifest, and
    two working files."""
    in_bucket(recorded, SAMPLE)
    for request, is_published in ((0, False), (1, False), (1, False), (2, False), (3, True), (1, True)):
        server.changes.clear()
        server.refuses = lambda _method, _key, last=request: len(server.changes) > last
        assert finalize(f"{RUN}/{ATTEMPT}") == 1
        words = capfd.readouterr().err.splitlines()
        assert len(words) == 1
        assert words[0].startswith(f"error: {RUN}/{ATTEMPT}: ")
        assert "its minimum free drive threshold" in words[0]
        assert ("nothing was published" in words[0]) is not is_published
        assert check_nothing_lost(in_run(server), tree(recorded)) is is_published
    server.refuses = lambda _method, _key: False
    assert finalize(f"{RUN}/{ATTEMPT}") == 0
    assert in_run(server) == of_sample(tree(published))
