"""Files at URLs, through fsspec. Credentials are found by it alone: in its configuration, or in the environment."""

import asyncio
import contextlib
import hashlib
import importlib
import os
import re
import secrets
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from roller_capture.errors import RollerError
from roller_capture.publication import STAGING_PREFIX
from roller_capture.remote.location import Location

_PUTS_WHOLE: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "cos", "oci", "memory"})
"""Where nobody ever sees half of an object, and folders are only a way of speaking."""

_OF_THIS_MACHINE: Final = frozenset({"file", "local"})

_OF_THE_EXTRA: Final = frozenset({"s3", "s3a"})
"""What `roller-capture[remote]` brings; other stores have packages of their own."""

_OF_A_VERSION: Final = "?versionId="

_UMASK: Final = threading.Lock()
"""There is one for all threads."""

_VERSIONS: Final = ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified")
"""Where stores tell that a file was written anew, also with as many bytes."""

_PIECE: Final = 8 * 1024 * 1024
_LONGEST_GOODBYE: Final = 5.0
"""Seconds that a request may take to break off, and before that, where it changes something, to end by itself."""

_IN_URLS: Final = ((re.compile(r"//[^/\s@]+@"), "//…@"), (re.compile(r"(://[^\s?'\"<>]*)\?[^\s'\"<>]*"), r"\1?…"))
_SECRET_NAME: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSW|CREDENTIAL|SAS|CONNECTION_STRING)", re.IGNORECASE)
_SHORTEST_SECRET: Final = 6
_LONGEST_REASON: Final = 300


class Entry(NamedTuple):
    """A file in a listing: its bytes, and what is another text when it was written anew, as far as the store tells."""

    size: int
    version: str = ""


class Store:
    """The files below one place. Names are relative to it; every error is a `RollerError` that names the file."""

    def __init__(self, location: Location) -> None:
        """Raises `RollerError` (exit 2) where fsspec, or what it needs for this kind of URL, is not there."""
        self.location = location
        self._files, self._root = _file_system(location)
        self._puts_whole = location.protocol in _PUTS_WHOLE

    def listing(self) -> dict[str, Entry]:
        """Every file below the place. A place that does not exist has none. `""` is the place itself, where that is a
        file."""
        found: dict[str, Entry] = {}
        with _clear(self.location, "cannot be listed"):
            self._files.invalidate_cache()
            self._refuse_links()
            try:
                details = self._files.find(self._root, detail=True)
            except FileNotFoundError:
                return found
            for full, detail in details.items():
                is_below = full == self._root or full.startswith(f"{self._root}/")
                if is_below and detail["type"] == "file" and not full.endswith("/"):  # the others mark folders
                    found[full.removeprefix(self._root).removeprefix("/")] = _entry(detail)
        return found

    def _refuse_links(self) -> None:
        """On this machine a link could lead anywhere, also round in a circle."""
        for base, folders, files in os.walk(self._root) if self.location.protocol in _OF_THIS_MACHINE else ():
            for name in (*folders, *files):
                if os.path.islink(f"{base}/{name}"):  # noqa: PTH114 - many names
                    raise RollerError(f"{self.location}: holds a link ({base}/{name}): links are not followed")

    def entry(self, name: str) -> Entry | None:
        """The file of this name; `None` where none is. That the store does not answer is an error, no absence."""
        with _clear(self.location / name, "cannot be looked for"):
            self._files.invalidate_cache()
            try:
                detail = self._files.info(self._path(name))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return _entry(detail) if detail["type"] == "file" else None

    def missing_bucket(self) -> str | None:
        """The name of the place's bucket where it is sure that there is none. That it may not be asked for says
        nothing: some keys may only write."""
        if self.location.protocol not in _OF_THE_EXTRA:  # of others it is not known that this error means it
            return None
        bucket = self._root.partition("/")[0]
        try:
            self._files.invalidate_cache()
            self._files.info(bucket)
        except FileNotFoundError:
            return bucket
        except Exception:  # noqa: BLE001 - what it is shows when something is written
            return None
        return None

    def fetch(self, name: str, target: Path, size: int) -> None:
        """Brings one file, which must be of so many bytes: of a longer one no more is read."""
        changed = RollerError(f"{self.location / name}: was changed while it was read: try again")

        def refuse_more(expected: int | None, read: int, **_: Any) -> None:
            if max(expected or 0, read) > size:
                raise changed

        with _clear(self.location / name, "cannot be read"):
            callback = importlib.import_module("fsspec.callbacks").Callback(hooks={"size": refuse_more})
            self._transfer("get_file", self._path(name), str(target), callback=callback)
        if target.stat().st_size != size:
            raise changed

    def holds(self, source: Path, name: str) -> bool:
        """Is that file there, byte for byte? It is read anew."""
        with source.open("rb") as stream:
            ours = hashlib.file_digest(stream, "sha256").digest()
        with _clear(self.location / name, "cannot be read"):
            self._files.invalidate_cache()
            try:
                with self._files.open(self._path(name), "rb", block_size=_PIECE) as stream:
                    return hashlib.file_digest(stream, "sha256").digest() == ours
            except FileNotFoundError:
                return False

    def put(self, source: Path, name: str) -> None:
        """Puts one file there, in the place of another; it is seen as a whole or not at all. Who interrupts it finds
        no half of it there, nor does it go on behind his back."""
        path = self._path(name)
        with _clear(self.location / name, "cannot be written"):
            if self._puts_whole:
                self._upload(source, path)
                return
            with _private_umask() if self.location.protocol in _OF_THIS_MACHINE else contextlib.nullcontext():
                self._put_and_rename(source, path)

    def _upload(self, source: Path, path: str) -> None:
        self._transfer("put_file", str(source), path, grace=_LONGEST_GOODBYE)

    def _transfer(self, method: str, *arguments: str, grace: float = 0.0, **options: Any) -> None:
        """Calls it so that an interrupt ends it, too, after `grace` seconds in which it may come to its end."""
        if getattr(self._files, "async_impl", False):
            request = getattr(self._files, f"_{method}")  # so fsspec calls the coroutines that it makes methods of
            _until_done(request(*arguments, **options), self._files.loop, grace)
        else:
            getattr(self._files, method)(*arguments, **options)

    def _put_and_rename(self, source: Path, path: str) -> None:
        folder = path.rpartition("/")[0]
        self._files.makedirs(folder, exist_ok=True)
        half = f"{folder}/{STAGING_PREFIX}{secrets.token_hex(6)}"
        try:
            self._upload(source, half)
            self._files.mv(half, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._files.rm_file(half)
            raise

    def remove(self, name: str) -> None:
        """Removes one file; one that is gone already is no error."""
        with _clear(self.location / name, "cannot be removed"), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def remove_empty_folder(self, name: str) -> None:
        """Removes a folder whose files were removed, and those in it; in a bucket there is none then. One with a file
        in it is an error."""
        if self._puts_whole:
            return
        with _clear(self.location / name, "cannot be removed"), contextlib.suppress(FileNotFoundError):
            self._files.invalidate_cache()
            below = self._files.find(self._path(name), withdirs=True, detail=True)
            folders = {path for path, detail in below.items() if detail["type"] == "directory"}
            for folder in sorted(folders, key=len, reverse=True):
                self._files.rmdir(folder)

    def _path(self, name: str) -> str:
        if _OF_A_VERSION in name and self.location.protocol in _OF_THE_EXTRA:
            raise RollerError(f"{self.location / name}: cannot be used: s3fs takes it for a version of another file")
        return f"{self._root}/{name}" if name else self._root


def _file_system(location: Location) -> tuple[Any, str]:
    try:
        fsspec: Any = importlib.import_module("fsspec")
        # The root of this machine is the place of no user, but a run may lie in it: `file://` would be another folder.
        files, root = fsspec.url_to_fs(location.url if any(location.parts) else f"{location.url}/")
    except ImportError as error:
        missing = f"{error.name} is not installed" if error.name else str(error)  # fsspec says what to install
        ours = error.name == "fsspec" or location.protocol in _OF_THE_EXTRA
        how = "pip install 'roller-capture[remote]'" if ours else "it comes with its own package"
        raise RollerError(f"{location}: {missing}: {how}", exit_code=2) from None
    except ValueError as error:
        raise RollerError(f"{location}: {_reason(error)}", exit_code=2) from None
    except Exception as error:  # noqa: BLE001 - a file system may raise anything when it is made
        raise RollerError(f"{location}: cannot be used ({_reason(error)})") from None
    return files, str(root).rstrip("/")


@contextlib.contextmanager
def _private_umask() -> Iterator[None]:
    """Files and folders of this machine are private, as all that holds conversations."""
    with _UMASK:
        before = os.umask(0o077)
        try:
            yield
        finally:
            os.umask(before)


@contextlib.contextmanager
def _clear(location: Location, problem: str) -> Iterator[None]:
    """File systems raise all kinds of errors; for the user they are one line."""
    try:
        yield
    except RollerError:
        raise
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        raise RollerError(f"{location}: {problem} ({_reason(error)})") from None


def _entry(detail: dict[str, Any]) -> Entry:
    version = next((f"{key} {detail[key]}" for key in _VERSIONS if detail.get(key) is not None), "")
    return Entry(int(detail["size"]), version)


def _until_done(request: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, grace: float) -> None:
    """Runs a request in fsspec's own thread. fsspec itself would let it go on there when this thread is interrupted;
    what has been sent already could then be done after it was taken back."""
    ended = threading.Event()

    async def watched() -> None:
        try:
            await request
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(watched(), loop)
    try:
        future.result()
    except BaseException:
        if not ended.wait(grace) and future.cancel():
            ended.wait(_LONGEST_GOODBYE)
        raise


def _reason(error: Exception) -> str:
    """What a library says of its trouble, without the credentials that it may repeat of URLs and headers."""
    words = str(error)
    for name, value in os.environ.items():
        if len(value.strip()) >= _SHORTEST_SECRET and _SECRET_NAME.search(name):
            for form in (value, value.strip(), repr(value)[1:-1]):
                words = words.replace(form, "…")
    for pattern, instead in _IN_URLS:
        words = pattern.sub(instead, words)
    words = " ".join(words.split())
    return (f"{type(error).__name__}: {words}" if words else type(error).__name__)[:_LONGEST_REASON]
