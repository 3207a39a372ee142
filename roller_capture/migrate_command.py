"""`roller-capture migrate`: copies of attempts in today's layout, a line each."""

from pathlib import Path

from roller_capture.errors import RollerError
from roller_capture.migrate import NothingToMigrateError, migrate_attempt
from roller_capture.published import find_attempts
from roller_capture.terminal import answer, progress, safe, say
from roller_capture.view.words import count


def migrate(path: Path, output: Path, *, from_raw: bool) -> int:
    """Migrates an attempt to `output`, or each attempt of a folder to the same place below it; the exit code.

    One that fails stops no other. Raises `RollerError` for a path that holds no attempt, and for an `output` that lies
    in it.
    """
    attempts = find_attempts(path)
    if output.resolve().is_relative_to(path.resolve()):
        raise RollerError(f"--output {output} lies in {path}: copies belong elsewhere", exit_code=2)
    worst = 0
    with progress("migrate", "attempts") as bar:
        for number, attempt in enumerate(attempts, 1):
            target = output if attempt == path else output / attempt.relative_to(path)
            try:
                manifest = migrate_attempt(attempt, target, from_raw=from_raw)
            except NothingToMigrateError as error:
                answer(safe(str(error)))
            except RollerError as error:
                say(f"error: {error}")
                worst = max(worst, error.exit_code)
            else:
                calls = count(manifest["counts"]["calls"], "call")
                answer(safe(f"{attempt} -> {target}: {calls}, {manifest['capture_status']}"))
            bar(number, len(attempts))
    return worst
