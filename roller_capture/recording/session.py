"""A running recorder between the proxy's hooks: open flows, stream taps, and the threads that wait for the disk."""

import asyncio
import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, Protocol, TypeVar

from roller_capture.recording.attempt_recorder import AttemptRecorder, ExchangeRecorder
from roller_capture.recording.upstream_key import UpstreamKey

_T = TypeVar("_T")


class OpenFlow(Protocol):
    """What is needed of a flow of the proxy."""

    id: str

    @property
    def killable(self) -> bool:
        """Whether it can still be cut."""

    def kill(self) -> None:
        """Cuts it."""


_FlowT = TypeVar("_FlowT", bound=OpenFlow)


class Session(Generic[_FlowT]):
    """A running recorder and what its hooks share. It outlives a reload of the script."""

    def __init__(
        self, recorder: AttemptRecorder, settings: tuple[str, ...], upstream_key: UpstreamKey | None = None
    ) -> None:
        self.recorder: Final = recorder
        self.settings: Final = settings
        self.upstream_key: Final = upstream_key
        self.stopped = False
        self.owner: object = None
        self.flows: Final[dict[str, _FlowT]] = {}
        # Errors of connection attempts by the client connection that asked for them. mitmproxy repeats them as the
        # error of each flow that waited, which tells those flows from ones that broke later.
        self.connect_errors: Final[dict[str, set[str]]] = {}
        self._noted_errors = 0
        self._disk: Final = ThreadPoolExecutor(max_workers=32, thread_name_prefix="roller-disk")

    async def off_loop(self, work: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Runs `work`, which may wait for the disk, without making other flows wait."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._disk, functools.partial(work, *args, **kwargs))

    def note_fault(self, flow_id: str | None, where: str, error: BaseException) -> None:
        """Records a fault of our own code."""
        self.recorder.journal.internal_error(flow_id, where, error)

    def tap(self, flow_id: str, take: Callable[[bytes], None]) -> Callable[[bytes], bytes | Iterable[bytes]]:
        """A stream callable that shows each chunk to `take` before it goes on unchanged.

        Once the recorder has stopped, nothing passes any more: the flow was killed, and no side may see bytes that are
        not on disk. An empty list then stands for nothing, since an empty chunk would end a chunked message.
        """

        broken = False

        def stream(data: bytes) -> bytes | Iterable[bytes]:
            nonlocal broken
            if self.stopped:
                return [] if data else data
            try:
                if data and not broken:
                    take(data)
            except Exception as error:  # noqa: BLE001 - mitmproxy would drop the chunk and go on
                # Later chunks would leave a hole in what is stored.
                broken = True
                self.note_fault(flow_id, "stream", error)
            return data

        return stream

    def exchange(self, flow: _FlowT) -> ExchangeRecorder | None:
        """The recorder of an open flow."""
        return self.recorder.exchanges.get(flow.id)

    def forget(self, flow: _FlowT) -> None:
        """Keeps nothing of a flow, so that only the caller can end its recorder."""
        self.flows.pop(flow.id, None)
        self.recorder.exchanges.pop(flow.id, None)

    async def note_errors(self) -> None:
        """Brings the error count on disk up to date, where it has grown."""
        count = self.recorder.journal.error_count
        if count != self._noted_errors:
            self._noted_errors = count
            await self.off_loop(self.recorder.note_errors)

    def stop(self) -> None:
        """Ends the recording; flows that are still open are recorded as cut by the proxy, and are cut. Blocks."""
        if self.stopped:
            return
        self.stopped = True
        self._disk.shutdown(wait=True)
        self.recorder.stop()
        for open_flow in self.flows.values():
            if open_flow.killable:
                open_flow.kill()
        self.flows.clear()
