"""The harness's own logs of an imported run: copied as `collect` copies them, by the launcher's allow-list."""

from pathlib import Path

from roller_capture.collect.native_logs import LAUNCHER_FILE, NativeStore, NotSavedError, native_folder
from roller_capture.errors import RollerError
from roller_capture.launchers import find_launcher
from roller_capture.working_files import read_working_files


def copy_logs(attempt: Path, harness: str, home: Path, keys: tuple[str, ...]) -> int:
    """Copies the logs of the sessions that the requests name, without the keys of the requests; how many files.

    launcher.json says that nobody launched anything here: how the run ended is for `finalize --execution-status`.
    Raises `RollerError` (exit 1) when they cannot be saved.
    """
    try:
        folder = native_folder(attempt)
        store = NativeStore(find_launcher(harness), home, folder, keys)
        store.save(read_working_files(attempt).calls, (), {"from": "import"}, [])
    except (NotSavedError, OSError) as error:
        raise RollerError(f"the logs below {home} could not be copied ({error}): nothing was imported") from None
    return sum(path.is_file() and path.name != LAUNCHER_FILE for path in folder.rglob("*"))
