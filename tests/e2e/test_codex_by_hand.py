"""Codex as a person uses it who has a runner of their own: behind a proxy that they start themselves, without a hook.

The steps are those of `roller-capture hooks codex`, and others that lead to the built-in provider.
"""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Expected
from roller_capture.acceptance.judge import differences
from roller_capture.acceptance.plans.codex import PLAN
from roller_capture.scripted_provider.codex_scenarios import SCENARIOS
from tests.support.by_hand import Step, follow
from tests.support.collecting import REAL_KEY
from tests.support.harness_run import pinned_binary
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

_FIRST = """\
model = "MODEL"
check_for_update_on_startup = false
analytics = {enabled = false}
"""
OWN_PROVIDER = f"""\
{_FIRST}model_provider = "recorded"
[model_providers.recorded]
name = "recorded"
base_url = "http://127.0.0.1:PORT/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
BUILT_IN = f'{_FIRST}openai_base_url = "http://127.0.0.1:PORT/v1"\n'
LOGGED_IN = f'{BUILT_IN}chatgpt_base_url = "http://127.0.0.1:PORT/backend-api"\n'


def by_hand(tmp_path: Path, scenario: str, configuration: str, variable: str, *more: Step) -> TruthTable:
    """Configuration, recording, one prompt, publishing."""
    options = "--enable multi_agent_v2 --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"
    work = f"{variable} codex exec {options} 'PROMPT'"
    steps = (
        Step("put into ~/.codex/config.toml what leads to the proxy", configuration),
        *more,
        Step(
            "record:",
            'mitmdump -s "$(roller-capture addon-path)" --set roller_attempt=ATTEMPT --set roller_harness=codex '
            "--mode reverse:ORIGIN@127.0.0.1:PORT",
        ),
        Step("work as always:", work),
        Step("then stop mitmdump (Ctrl-C), and publish:", "roller-capture finalize ATTEMPT --native ~/.codex"),
    )
    capture = follow("codex", _program(), SCENARIOS[scenario](), tmp_path / "run", steps)
    return TruthTable(capture, PLAN.delegation_tools)


def _program() -> tuple[str, ...]:
    """Where it is led to nothing that answers, it would try for ever."""
    return ("env", "-u", "HTTP_PROXY", "timeout", "60", str(pinned_binary("codex")))


def test_a_provider_of_one_s_own(tmp_path: Path) -> None:
    """A child and its relations, all calls attributed, with nothing installed."""
    table = by_hand(tmp_path, "single", OWN_PROVIDER, "env")
    planned = PLAN.cells["single"].expected
    assert differences(table, Expected(planned.delegations, execution="unknown")) == []
    assert table.capture.manifest["harness"] == {"name": "codex", "version": "0.171.0", "tested": True}


def test_what_the_command_prints_is_enough(tmp_path: Path) -> None:
    """`roller-capture hooks codex`, followed to the letter: all calls attributed, nothing missing."""
    table = TruthTable(follow("codex", _program(), SCENARIOS["ordinary"](), tmp_path / "run"), PLAN.delegation_tools)
    assert differences(table, Expected(execution="unknown")) == []


def test_the_built_in_provider_falls_back_from_its_websocket(tmp_path: Path) -> None:
    """The upgrade is refused, and the same request comes by HTTP."""
    table = by_hand(tmp_path, "ordinary", BUILT_IN, f"CODEX_API_KEY={REAL_KEY}")
    assert differences(table, Expected(execution="unknown")) == []
    assert table.capture.manifest["other_requests"]


def test_compressed_requests_are_read(tmp_path: Path) -> None:
    """With a login it compresses what it sends; the service gets those very bytes, and the call has the text."""
    now = datetime.now(UTC)
    claims = {"exp": int(now.timestamp()) + 86_400, "https://api.openai.com/auth": {"chatgpt_account_id": "account"}}
    token = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims))
    tokens = {"id_token": f"{token}.x", "access_token": REAL_KEY, "refresh_token": "none", "account_id": "account"}
    login = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": now.isoformat()}
    step = Step("put into ~/.codex/auth.json a login", json.dumps(login))
    table = by_hand(tmp_path, "ordinary", LOGGED_IN, "env", step)
    assert differences(table, Expected(execution="unknown")) == []
    assert {record.headers["content-encoding"] for record in table.capture.truth} == {"zstd"}
    assert {call["context"]["input"][-1]["type"] for call in table.calls.values()} >= {"message"}
