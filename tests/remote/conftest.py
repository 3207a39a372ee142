"""A recorded run, here and in a bucket."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from typer.testing import CliRunner

from benchmarks.many import make_run
from roller_capture.cli import app
from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.finalize_command import FinalizeCommand, run_finalize
from tests.remote.s3_server import BUCKET, KEYS, Objects, S3Server

SAMPLES = 2
RUN = f"s3://{BUCKET}/runs/first"
SAMPLE = "samples/sample-00001"
ATTEMPT = f"{SAMPLE}/capture/attempt-0001"


def tree(directory: Path) -> Objects:
    """Every file below a folder; none of the locks of unpublished attempts, which name a process."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


class Done(NamedTuple):
    """What came of a command."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


@pytest.fixture(scope="session")
def _server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def server(_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """An empty bucket; commands in this process find the keys where people have them."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": _server.url}.items():
        monkeypatch.setenv(name, value)
    _server.empty()
    return _server


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process, and those that it starts, put what they fetch."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def command(server: S3Server, copies: Path) -> Command:
    """`roller-capture` in this process; no copy stays, and nothing is said of one."""
    assert server.url

    def run(*arguments: str | Path) -> Done:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert list(copies.iterdir()) == [], "a copy stayed behind"
        for text in (result.stdout, result.stderr):
            assert str(copies) not in text
            assert KEYS["AWS_SECRET_ACCESS_KEY"] not in text
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run that is not published yet. It is shared: nobody changes it."""
    run = tmp_path_factory.mktemp("remote") / "first"
    make_run(run, SAMPLES)
    return run


@pytest.fixture(scope="session")
def published(recorded: Path) -> Path:
    """The same, published on this machine; nobody changes it."""
    run = recorded.parent / "published" / "first"
    shutil.copytree(recorded, run)
    assert run_finalize(FinalizeCommand((run,), FinalizeRequest())) == 0
    return run


class Put(Protocol):
    """Puts a run into the bucket, at `RUN`; with `only`, what lies below that folder of it."""

    def __call__(self, run: Path, only: str = "") -> None: ...


@pytest.fixture
def in_bucket(server: S3Server) -> Put:
    """What is put there is no change."""

    def put(run: Path, only: str = "") -> None:
        server.put({f"runs/first/{name}": body for name, body in tree(run).items() if name.startswith(only)})

    return put
