"""One launcher file, of a program that prints its session id and keeps its log in `NINTH_HOME`."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from roller_capture.capture_protocol import Gap
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.vocabulary import Protocol
from tests.support.ninth_harness.adapter import LOG, SESSION_HEADER

PROGRAM = """
import json, os, sys, urllib.request
if sys.argv[1:] == ["--version"]:
    sys.exit(print("ninth 9.0"))
session = "ninth-session-1"
body = {"model": sys.argv[1], "max_tokens": 9, "messages": [{"role": "user", "content": sys.argv[2]}]}
headers = {"x-ninth-session": session, "content-type": "application/json", "x-api-key": os.environ["NINTH_KEY"]}
request = urllib.request.Request(os.environ["NINTH_BASE"] + "/v1/messages", json.dumps(body).encode(), headers)
answer = json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request))
record = json.dumps({"session": session, "response": answer["id"]})
with open(os.path.join(os.environ["NINTH_HOME"], "ninth.jsonl"), "a") as log:
    log.write(record + "\\n")
print(record)
"""
"""The harness itself."""


class NinthLauncher:
    """See `roller_capture.launchers.Launcher`."""

    traits = LauncherTraits(
        executable="ninth",
        installed_as="bin/ninth",
        install_hint="write it",
        tested_versions=frozenset({"9.0"}),
        protocols=(Protocol.ANTHROPIC_MESSAGES,),
        profiles=("quiet",),
        key_variables=("NINTH_KEY",),
        session_headers=(SESSION_HEADER,),
        by_hand=ByHand(
            setup=("tell it where to log:", "  export NINTH_HOME=~/.ninth"),
            work=("work as always:", "  NINTH_BASE=http://127.0.0.1:PORT ninth MODEL 'PROMPT'"),
            logs="~/.ninth",
        ),
        needs_model=True,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        """It takes any."""

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:  # noqa: ARG002
        return HarnessCommand((str(binary), "--version"), {})

    def version_in(self, output: str) -> str | None:
        name, _, version = output.strip().partition(" ")
        return version if name == "ninth" else None

    def prepare(self, settings: LaunchSettings) -> None:
        """Nothing."""

    def service(self, settings: LaunchSettings) -> HarnessService | None:  # noqa: ARG002
        return None

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:  # noqa: ARG002
        environment = {
            "NINTH_BASE": str(settings.base_url),
            "NINTH_HOME": str(settings.home),
            "NINTH_KEY": str(settings.key),
        }
        return HarnessCommand((str(settings.binary), str(settings.model), prompt), environment)

    def session_ids(self, stdout: Path) -> list[str]:
        return list(dict.fromkeys(json.loads(line)["session"] for line in stdout.read_text().splitlines()))

    def has_answered(self, stdout: Path) -> bool:
        return stdout.stat().st_size > 0

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        return stdout.stat().st_size > start

    def turn_failed(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return False

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:  # noqa: ARG002
        shutil.copyfile(home / LOG, target / LOG)
        return []


LAUNCHER = NinthLauncher()
