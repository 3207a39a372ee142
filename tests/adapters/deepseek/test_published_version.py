"""The version in a whole publication of a run without a launcher: the one that the stored requests name."""

import json
from pathlib import Path

import pytest

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from tests.adapters.deepseek.session_logs import ROOT, SessionLogs, accepted, answer, header, turn
from tests.support.attempts import AttemptBuilder, message_body
from tests.support.harness_run import read_json


@pytest.mark.parametrize(
    ("sent", "version", "tested", "codes"),
    [("0.2.1-rc.2", "0.2.1rc2", True, []), ("0.9.0", "0.9.0", False, ["native_version_untested"])],
)
def test_it_is_published_and_an_untested_one_is_named(
    tmp_path: Path, sent: str, version: str, tested: bool, codes: list[str]
) -> None:
    """As the harness sends it with each call."""
    logs = SessionLogs(tmp_path)
    logs.write([header(), *turn(accepted(0), answer("m-1"))])
    builder = AttemptBuilder(tmp_path / "attempt", "deepseek")
    body = {"model": "m", "messages": [], "dsh_session_log": {"session": {"id": ROOT}, "throughSeq": 0}}
    headers = (("x-deepseek-harness-session-id", ROOT), ("user-agent", f"deepseek-harness/{sent} (+https://x)"))
    builder.call(json.dumps(body).encode(), message_body("msg_1"), session=None, headers=headers)
    attempt = builder.build()
    finalize_attempt(attempt, FinalizeRequest(native=logs.root))
    manifest = read_json(attempt / "manifest.json")
    assert manifest["harness"] == {"name": "deepseek", "version": version, "tested": tested}
    assert [error["code"] for error in manifest["errors"]] == codes
    assert validate_attempt(attempt, deep=True) == []
