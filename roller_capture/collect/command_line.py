"""The command line of `collect`: what is for the harness stands behind `--`."""

from typing import Any, Final

from typer.core import TyperCommand

from roller_capture.errors import RollerError

MODEL_HELP: Final = "The model that the harness is to ask for. Has to be given for opencode, hermes, openclaw and pi."
PROFILE_HELP: Final = (
    "The harness's own profile. opencode: nested, background; codex: review; openclaw: coding, full; deepseek: "
    "sdk-minimal, sdk, headless; generic: argument, stdin; the others have none."
)
"""What launchers say too; but `--help` must not wait for their imports."""

_BEHIND: Final = "--"
_FURTHER: Final = "harness_args"


class CollectCommand(TyperCommand):
    """Refuses words that no option takes and that do not stand behind `--`.

    They are nearly always the rest of a prompt without quotes: the harness would be given a prompt of one word, and the
    others as arguments.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises `RollerError` (exit 2)."""
        behind = len(args) - args.index(_BEHIND) - 1 if _BEHIND in args else 0
        rest: list[str] = super().parse_args(ctx, args)
        words = list(ctx.params.get(_FURTHER) or ())
        loose = words[: max(0, len(words) - behind)]
        if loose:
            raise RollerError(
                f"{loose[0]!r}: belongs to no option: put quotes around a prompt of several words, and -- before "
                "arguments of the harness",
                exit_code=2,
            )
        return rest
