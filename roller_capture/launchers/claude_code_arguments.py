"""Which arguments of the user's own Claude Code may be given, and which of them would be read as a second prompt.

The options are those that the program itself defines, the hidden ones included (2.1.197 and 2.1.332; read from
`claude --help` and from the program's own tables). An argument that is no option's value is a prompt to it, and of two
prompts it takes the first: so each value must be known to belong to an option.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.launchers.refusal import refusal

_OURS: Final = "collect gives it itself"
_SESSION: Final = "collect starts one new session, and resumes it for the further turns"
_LEAVES: Final = "the work would go on outside of the process that collect waits for"
_TURNS: Final = "turns that nobody gave to collect could be added"
_PROMPT: Final = "it would be a second prompt: give prompts with --prompt"
_TEAM: Final = "it would make the root a member of another session's team"
_NOTHING_RUN: Final = "nothing would be run"
_REFUSED: Final[Mapping[str, str]] = {
    "--no-session-persistence": "it turns the session log off, and without it no call can be attributed",
    **dict.fromkeys(("-p", "--print", "--output-format", "--input-format", "--replay-user-messages"), _OURS),
    **dict.fromkeys(("--await-initialize", "--await-claim", "--managed-settings-in-initialize"), _OURS),
    **dict.fromkeys(("-r", "--resume", "-c", "--continue", "--session-id", "--fork-session", "--from-pr"), _SESSION),
    **dict.fromkeys(("--resume-session-at", "--resume-drops-turn", "--reply-on-resume", "--rewind-files"), _SESSION),
    **dict.fromkeys(("--session-began-as-copy", "--parent-session-id"), _SESSION),
    **dict.fromkeys(("--bg", "--background", "--routine", "--agents-view-if-allowed", "--tmux", "--desktop"), _LEAVES),
    **dict.fromkeys(("--cloud", "--remote", "--teleport", "--environment", "--pool", "--attach-serve"), _LEAVES),
    **dict.fromkeys(("--exec", "--handle-uri", "--sdk-url", "--hold-repository-while-parked"), _LEAVES),
    **dict.fromkeys(("--remote-control", "--rc", "--remote-control-session-name-prefix"), _TURNS),
    **dict.fromkeys(("--messaging-socket-path", "--channels", "--dangerously-load-development-channels"), _TURNS),
    **dict.fromkeys(("--watch-artifact", "--watch-artifact-no-autoreact"), _TURNS),
    **dict.fromkeys(("--prefill", "--prefill-b64", "--deep-link-origin", "--deep-link-cwd-b64"), _PROMPT),
    **dict.fromkeys(("--agent-id", "--agent-name", "--agent-type", "--team-name", "--teammate-mode"), _TEAM),
    "--lead-verify-key": _TEAM,
    **dict.fromkeys(("--model", "-m"), "use collect's own --model, which stands in the run's configuration"),
    **dict.fromkeys(("-v", "-V", "--version", "-h", "--help", "--init-only"), _NOTHING_RUN),
    "--": _PROMPT,
}
"""Arguments that are refused, and why; with their aliases."""


class _Takes(Enum):
    """How many values an option takes from the arguments behind it."""

    NONE = auto()
    ONE = auto()
    PERHAPS_ONE = auto()
    SOME = auto()
    MORE = auto()
    """Any number, after the first one of `SOME`."""


_OPTIONS: Final[Mapping[str, _Takes]] = {
    **dict.fromkeys(
        (
            "--allow-dangerously-skip-permissions",
            "--allow-other-models",
            "--ax-screen-reader",
            "--bare",
            "--brief",
            "--chrome",
            "--dangerously-skip-permissions",
            "--debug-to-stderr",
            "--disable-slash-commands",
            "--enable-auth-status",
            "--enable-auto-mode",
            "--exclude-dynamic-system-prompt-sections",
            "--forward-subagent-text",
            "--hard-fail",
            "--host-auth-is-org-sign-in",
            "--ide",
            "--include-hook-events",
            "--include-partial-messages",
            "--include-unsupported-models",
            "--init",
            "--maintenance",
            "--no-chrome",
            "--plan-mode-required",
            "--restricted",
            "--safe-mode",
            "--session-mirror",
            "--strict-mcp-config",
            "--verbose",
            "-d2e",
        ),
        _Takes.NONE,
    ),
    **dict.fromkeys(
        (
            "--advisor",
            "--agent",
            "--agent-color",
            "--agents",
            "--append-subagent-system-prompt",
            "--append-subagent-system-prompt-file",
            "--append-system-prompt",
            "--append-system-prompt-file",
            "--autocompact",
            "--client-data-url",
            "--correlation-id",
            "--debug-file",
            "--deep-link-last-fetch",
            "--deep-link-repo",
            "--effort",
            "--fallback-model",
            "--fast-mode",
            "--forward-home-settings",
            "--inherit-permission-mode",
            "--initialize-fields",
            "--json-schema",
            "--managed-settings",
            "--max-budget-usd",
            "--max-thinking-tokens",
            "--max-turns",
            "--metadata",
            "--name",
            "--on-branch",
            "--permission-mode",
            "--permission-prompt-tool",
            "--permission-prompts",
            "--plan-mode-instructions",
            "--plugin-dir",
            "--plugin-dir-no-mcp",
            "--plugin-url",
            "--proactivity",
            "--project-config-root",
            "--ref",
            "--runner-declares",
            "--setting-sources",
            "--settings",
            "--system-prompt",
            "--system-prompt-file",
            "--system-prompt-snapshot",
            "--task-budget",
            "--thinking",
            "--thinking-display",
            "--workload",
            "-n",
        ),
        _Takes.ONE,
    ),
    **dict.fromkeys(("--debug", "--project", "--prompt-suggestions", "--worktree", "-d", "-w"), _Takes.PERHAPS_ONE),
    **dict.fromkeys(
        (
            "--add-dir",
            "--allowed-tools",
            "--allowedTools",
            "--betas",
            "--disallowed-tools",
            "--disallowedTools",
            "--file",
            "--mcp-config",
            "--tools",
        ),
        _Takes.SOME,
    ),
}

_PERMISSION_FLAGS: Final = ("--permission-mode", "--dangerously-skip-permissions", "--restricted")


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuses (`RollerError`, exit 2) what breaks the capture, and each value that belongs to no option."""
    option, takes = "", _Takes.NONE
    for argument in arguments:
        if takes in (_Takes.ONE, _Takes.SOME):
            _check_value(argument, option)
            takes = _Takes.MORE if takes is _Takes.SOME else _Takes.NONE
        elif _is_option(argument):
            option, takes = argument, _checked(argument)
        elif takes is _Takes.NONE:
            raise _refusal(argument, _reason(option))
        elif takes is _Takes.PERHAPS_ONE:
            takes = _Takes.NONE
    if takes in (_Takes.ONE, _Takes.SOME):
        raise _refusal(option, "its value is missing")


def chooses_permissions(arguments: Sequence[str]) -> bool:
    """Whether the user says what the agent may do, so that `collect` does not."""
    return any(argument.partition("=")[0] in _PERMISSION_FLAGS for argument in arguments)


def _is_option(argument: str) -> bool:
    """As the program has it: a single dash is a value."""
    return len(argument) > 1 and argument.startswith("-")


def _check_value(argument: str, option: str) -> None:
    """The program takes what comes next for the value, also another option; that is never meant."""
    if argument.partition("=")[0] in {*_OPTIONS, *_REFUSED}:
        raise _refusal(option, f"its value is missing before {argument.partition('=')[0]}")


def _checked(argument: str) -> _Takes:
    """How many values follow. A short option can have its value, or further ones, right behind it (`-rID`, `-cp`)."""
    name, has_value, _ = argument.partition("=")
    is_short = not argument.startswith("--") and argument not in _OPTIONS
    for flag in (name, argument[:2] if is_short else name):
        if flag in _REFUSED:
            raise _refusal(flag, _REFUSED[flag])
    if has_value or (is_short and len(argument) > 2):
        return _Takes.NONE
    return _OPTIONS.get(name, _Takes.NONE)


def _reason(option: str) -> str:
    if option and option.partition("=")[0] not in _OPTIONS:
        return f"it is not known that {option} takes a value, so it could be a second prompt: write {option}=VALUE"
    return _PROMPT


def _refusal(argument: str, reason: str) -> RollerError:
    return refusal("claude-code", argument, reason)
