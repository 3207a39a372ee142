"""What holds for every test: usual signals, also where CI started with some ignored; the same ids in every run;
no garbage collection of what lives as long as the tests."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest

# With it, what could not be written is known at once; without it, as most people have it, once more at the very end.
os.environ.pop("PYTHONUNBUFFERED", None)

# A shell's background job ignores SIGINT and nohup ignores SIGHUP, and children inherit that; the tests send both.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a bytes value by its argument: gzip writes the time, and workers refuse to differ in a test's id."""
    return argname if isinstance(val, bytes | bytearray) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Ten thousand tests and the libraries that they import are never garbage: to look through them again and again
    was every seventh second of the tests that run in this process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
