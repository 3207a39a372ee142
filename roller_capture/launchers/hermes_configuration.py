"""Hermes's `config.yaml` for one attempt, and the arguments that a user may give beside it.

Hermes takes its settings from that file alone, so `--config KEY=VALUE` is ours: it sets one of a list of settings.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from roller_capture.errors import RollerError
from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.refusal import refusal
from roller_capture.vocabulary import Protocol

_PROVIDER: Final = "roller"
PLUGIN: Final = "roller_capture"
"""The folder and the name of our plugin."""

API_MODES: Final[Mapping[Protocol, str]] = {
    Protocol.OPENAI_CHAT_COMPLETIONS: "chat_completions",
    Protocol.OPENAI_RESPONSES: "codex_responses",
    Protocol.ANTHROPIC_MESSAGES: "anthropic_messages",
}
"""Hermes's own words for the protocols, the usual one first."""

_CONTEXT_LENGTH: Final = 200_000
_TAKES_VALUE: Final = frozenset({"-t", "--toolsets", "-s", "--skills", "--config"})
_ALONE: Final = frozenset({"--ignore-rules", "--pass-session-id", "--accept-hooks"})
_SETTINGS: Final = frozenset(
    {
        "agent.max_turns",
        "agent.reasoning_effort",
        "auxiliary.title_generation.enabled",
        "compression.enabled",
        "compression.in_place",
        "compression.threshold",
        "delegation.max_concurrent_children",
        "delegation.max_iterations",
        "delegation.max_spawn_depth",
        "delegation.orchestrator_enabled",
        "memory.nudge_interval",
        "model.context_length",
        "skills.creation_nudge_interval",
        "terminal.timeout",
    }
)
"""What `--config KEY=VALUE` may set: nothing that leads a request elsewhere or takes the plugin away."""


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """Hermes's own arguments, and the settings of `--config`. Raises `RollerError` for all that is not allowed."""
    given: list[str] = []
    settings: dict[str, object] = {}
    waiting = iter(arguments)
    for argument in waiting:
        flag, _, value = argument.partition("=") if argument.startswith("--") else (argument, "", "")
        if flag in _ALONE and flag == argument:
            given.append(argument)
        elif flag in _TAKES_VALUE:
            if flag == argument:
                value = next(waiting, "")
            if not value:
                raise _refusal(flag, "its value is missing")
            if flag == "--config":
                settings.update([_setting(value)])
            elif flag.startswith("--"):
                given.append(f"{flag}={value}")
            else:
                given += [flag, value]
        else:
            known = ", ".join(sorted(_TAKES_VALUE | _ALONE))
            raise _refusal(argument.partition("=")[0], f"of Hermes's arguments, only {known} leave the capture whole")
    return given, settings


def _setting(text: str) -> tuple[str, object]:
    key, found, value = text.partition("=")
    if not found:
        raise _refusal(f"--config {text}", "write it as --config KEY=VALUE")
    if key not in _SETTINGS:
        raise _refusal(f"--config {key}", f"it may set {', '.join(sorted(_SETTINGS))}")
    try:
        parsed: object = json.loads(value)
    except ValueError:
        parsed = value
    if isinstance(parsed, (dict, list)) or parsed is None:
        raise _refusal(f"--config {key}", "its value must be a number, true, false or a word")
    return key, parsed


def _refusal(argument: str, reason: str) -> RollerError:
    return refusal("hermes", argument, reason)


def configuration_of(settings: LaunchSettings) -> dict[str, Any]:
    """`config.yaml`: the provider behind the proxy, our plugin, and no call or look-up that nobody asked for."""
    base_url = settings.base_url
    provider: dict[str, Any] = {"api_mode": API_MODES[settings.protocol], "model": settings.model}
    if base_url is not None:
        # Hermes adds `/v1` for Messages alone.
        suffix = "" if settings.protocol is Protocol.ANTHROPIC_MESSAGES else "/v1"
        provider["base_url"] = base_url + suffix
    if settings.key is not None:
        provider["key_env"] = settings.key_variable
    document: dict[str, Any] = {
        "model": {"default": settings.model, "provider": _PROVIDER, "context_length": _CONTEXT_LENGTH},
        "providers": {_PROVIDER: provider},
        "plugins": {"enabled": [PLUGIN]},
        "agent": {"environment_probe": False},
        "security": {"tirith_enabled": False, "allow_lazy_installs": False},
        "model_catalog": {"enabled": False},
        "auxiliary": {"title_generation": {"enabled": False}},
        "skills": {"creation_nudge_interval": 0},
        "memory": {"nudge_interval": 0},
    }
    for key, value in split_arguments(settings.arguments)[1].items():
        *sections, name = key.split(".")
        place = document
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return document
