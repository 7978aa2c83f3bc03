"""The flag that makes daemons stop, as daemons and as their runner see it."""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from typing import Any, Generator, List, Optional, Tuple


class DaemonStoppingReason(enum.Flag):
    """Why a daemon stops. Several reasons may be set."""

    DONE = enum.auto()  # It has ended.
    FILTERS_MISMATCH = enum.auto()  # The object no longer matches the filters.
    RESOURCE_DELETED = enum.auto()  # The object is being deleted.
    OPERATOR_PAUSING = enum.auto()  # Never set: a Setpoint that is not the leader starts no daemons.
    OPERATOR_EXITING = enum.auto()  # Setpoint or this process stops.
    DAEMON_SIGNALLED = enum.auto()  # It has its cancellation_backoff to end.
    DAEMON_CANCELLED = enum.auto()  # Its task was cancelled; a thread may go on.
    DAEMON_ABANDONED = enum.auto()  # It did not end in time.


class Stopper:
    """The side of the flag that the runner sets, from any thread."""

    def __init__(self) -> None:
        self.since: Optional[float] = None  # By time.monotonic.
        self.reason: Optional[DaemonStoppingReason] = None
        self.event = threading.Event()
        self._lock = threading.Lock()
        self._futures: List[Tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def is_set(self, reason: Optional[DaemonStoppingReason] = None) -> bool:
        """Whether the flag is set, for this reason among others if one is given."""
        return self.event.is_set() and (reason is None or (self.reason is not None and reason in self.reason))

    def set(self, reason: DaemonStoppingReason) -> None:
        with self._lock:
            self.since = time.monotonic() if self.since is None else self.since
            self.reason = reason if self.reason is None else self.reason | reason
            self.event.set()
            futures, self._futures = self._futures, []
        for loop, future in futures:
            # The loop of a daemon that called asyncio.run may have ended meanwhile.
            try:
                loop.call_soon_threadsafe(_finish, future)
            except RuntimeError:
                pass

    def future(self) -> asyncio.Future[None]:
        """A future of the running loop that is done when the flag is set."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self.event.is_set():
                future.set_result(None)
            else:
                self._futures.append((loop, future))
        return future

    def drop(self, future: asyncio.Future[None]) -> None:
        """Forget a future. A daemon that waits every second must not leave one behind each time."""
        future.cancel()
        with self._lock:
            self._futures = [(loop, one) for loop, one in self._futures if one is not future]


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class DaemonStopped:
    """The argument stopped of daemons: true when they shall end."""

    def __init__(self, stopper: Stopper) -> None:
        self._stopper = stopper

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.is_set()}, reason={self.reason}>"

    def __bool__(self) -> bool:
        return self._stopper.is_set()

    def is_set(self) -> bool:
        return self._stopper.is_set()

    @property
    def reason(self) -> Optional[DaemonStoppingReason]:
        return self._stopper.reason

    def wait(self, timeout: Optional[float] = None) -> Any:
        raise NotImplementedError

    def __await__(self) -> Generator[Any, None, Any]:
        raise NotImplementedError("a daemon cannot await stopped itself; use: await stopped.wait()")


class SyncDaemonStopped(DaemonStopped):
    """stopped of synchronous daemons."""

    def wait(self, timeout: Optional[float] = None) -> SyncDaemonStopped:
        """Wait until the daemon shall end, at most that long; the result is true if it shall."""
        self._stopper.event.wait(timeout)
        return self


class AsyncDaemonStopped(DaemonStopped):
    """stopped of asynchronous daemons."""

    def wait(self, timeout: Optional[float] = None) -> _Waiting:
        """As that of synchronous daemons, with await."""
        return _Waiting(self, timeout)


class _Waiting(DaemonStopped):
    def __init__(self, stopped: AsyncDaemonStopped, timeout: Optional[float]) -> None:
        super().__init__(stopped._stopper)
        self._stopped = stopped
        self._timeout = timeout

    def __await__(self) -> Generator[Any, None, AsyncDaemonStopped]:
        future = self._stopper.future()
        try:
            yield from asyncio.wait([future], timeout=self._timeout).__await__()
        finally:
            self._stopper.drop(future)
        return self._stopped
