"""A place to run `collect` in: a fake harness, a scripted provider, and what one run left behind."""

import json
import os
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roller_capture.collect.request import CollectRequest
from roller_capture.integrity import validate_attempt
from roller_capture.scripted_provider import Reply, ScriptedProvider
from roller_capture.vocabulary import DebugRetention
from tests.support.collecting import collecting, fake_claude


@dataclass
class Result:
    """What one `collect` left behind."""

    run_dir: Path
    exit_code: int
    out: str
    err: str

    @property
    def sample(self) -> dict[str, Any]:
        """sample.json."""
        return read_json(self.run_dir / "samples" / "sample-0001" / "sample.json")

    @property
    def attempt(self) -> Path:
        """The only attempt."""
        return self.run_dir / "samples" / "sample-0001" / "capture" / "attempt-0001"

    @property
    def manifest(self) -> dict[str, Any]:
        """The published manifest; the attempt must validate."""
        assert validate_attempt(self.attempt, deep=True) == []
        assert not (self.attempt / "work").exists()
        return read_json(self.attempt / "manifest.json")

    @property
    def launcher(self) -> dict[str, Any]:
        """launcher.json, where raw/ is kept."""
        return read_json(self.attempt / "raw" / "native" / "launcher.json")


@dataclass
class Rig:
    """A place to run in: provider, harness, folders."""

    directory: Path
    provider: ScriptedProvider
    replies: dict[str, Reply] = field(default_factory=dict)
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, request: CollectRequest, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A running `collect`, which is ended with the test at the latest."""
        process = collecting(request, environment=environment)
        self.processes.append(process)
        return process

    def samples(self, *lines: dict[str, Any], name: str = "samples.jsonl") -> Path:
        """A file of samples."""
        path = self.directory / name
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return path

    @property
    def workdir(self) -> Path:
        """Where the harness works."""
        return self.directory / "work"

    def request(self, *prompts: str, name: str = "run", **options: Any) -> CollectRequest:
        """What to collect; raw/ is always kept."""
        request = CollectRequest(
            harness="claude-code",
            run_dir=self.directory / name,
            prompts=prompts,
            api_base=f"{self.provider.url}/v1",
            capture_calls=True,
            harness_bin=fake_claude(self.directory / "bin"),
            workdir=self.workdir,
            capture_debug=DebugRetention.FULL,
        )
        return replace(request, **options)

    def collect(self, *prompts: str, environment: dict[str, str] | None = None, **options: Any) -> Result:
        """Runs it to its end."""
        request = self.request(*prompts, **options)
        process = self.start(request, environment)
        out, err = process.communicate()
        return Result(request.run_dir, process.returncode, out, err)

    def started(self) -> list[dict[str, Any]]:
        """What each harness process was started with, in their order."""
        return [read_json(path) for path in sorted(self.workdir.glob("started-*.json"), key=os.path.getmtime)]

    def harness_pid(self) -> int:
        """The process id of the only harness process."""
        (path,) = self.workdir.glob("started-*.json")
        return int(path.stem.removeprefix("started-"))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document
