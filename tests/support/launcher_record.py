"""What a launcher knows about the run it started."""

import json
from pathlib import Path


def root_session_id(stdout: Path) -> str:
    """The session id that the harness announced in the first line of its output stream."""
    for line in stdout.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record.get("type") == "system" and record.get("subtype") == "init":
            return str(record["session_id"])
    raise ValueError(f"{stdout} has no init record")
