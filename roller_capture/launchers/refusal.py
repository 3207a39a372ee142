"""What every launcher refuses in the same words (exit 2)."""

from typing import Final

from roller_capture.errors import RollerError
from roller_capture.launchers import LauncherTraits

_LONGEST: Final = 60


def refusal(harness: str, argument: str, reason: str) -> RollerError:
    """An argument that the harness must not get here. A word that is no option stands in quotes, so that it can be told
    from the sentence."""
    shown = argument if len(argument) <= _LONGEST else f"{argument[: _LONGEST - 3]}..."
    named = shown if argument.startswith("-") else repr(shown)
    return RollerError(f"{named} cannot be given to {harness} here: {reason}", exit_code=2)


def no_model(harness: str, where: str = "") -> RollerError:
    """No model was named, and the harness has none of its own; `where` is the line of a file of samples."""
    named = f"{where}: model: " if where else "--model NAME is missing: "
    return RollerError(f"{named}{harness} has no model of its own here, so it has to be told one", exit_code=2)


def check_protocol(protocol: str | None, harness: str, traits: LauncherTraits) -> None:
    """Refuses one that the harness does not speak. Raises `RollerError` (exit 2)."""
    if protocol is not None and protocol not in traits.protocols:
        raise RollerError(f"--protocol {protocol}: {harness} speaks {', '.join(traits.protocols)}", exit_code=2)
