"""The command line of `collect`: what is for the harness stands behind `--`."""

from typing import Any, Final

from typer.core import TyperCommand

from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import LauncherTraits, find_launcher

MODEL_HELP: Final = "The model that the harness is to ask for."
PROFILE_HELP: Final = "The harness's own profile."

_BEHIND: Final = "--"
_FURTHER: Final = "harness_args"


class CollectCommand(TyperCommand):
    """Refuses words that no option takes and that do not stand behind `--`.

    They are nearly always the rest of a prompt without quotes: the harness would be given a prompt of one word, and the
    others as arguments.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Names what each harness has, as its launcher says it; only the help waits for their imports."""
        words = {MODEL_HELP: _model_words, PROFILE_HELP: _profile_words}
        for option in self.params:
            told = getattr(option, "help", None)
            if told in words:
                option.help = f"{told} {words[told]()}"  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)

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


def _model_words() -> str:
    needing = [name for name, traits in _all_traits() if traits.needs_model]
    return f"Has to be given for {', '.join(needing[:-1])} and {needing[-1]}."


def _profile_words() -> str:
    told = [f"{name}: {', '.join(traits.profiles)}" for name, traits in _all_traits() if traits.profiles]
    return f"{'; '.join(told)}; the others have none."


def _all_traits() -> list[tuple[str, LauncherTraits]]:
    return [(name, find_launcher(name).traits) for name, row in HARNESSES.items() if row.launcher is not None]
