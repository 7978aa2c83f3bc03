"""Warns about handlers that block the event loop, which stops all other calls of the process."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from types import TracebackType
from typing import Optional

logger = logging.getLogger(__name__)

# How long the loop may be blocked before a warning, and the next warnings.
LIMIT = 5.0


class Watchdog:
    """A thread that expects the event loop to respond, and logs what it does if it does not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float = LIMIT) -> None:
        self._loop = loop
        self._limit = limit
        self._loop_thread = threading.get_ident()
        self._stopped = threading.Event()
        self._alive = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="setpoint-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._limit / 5):
            self._alive.clear()
            try:
                self._loop.call_soon_threadsafe(self._alive.set)
            except RuntimeError:
                return
            blocked = 0.0
            while not self._alive.wait(self._limit) and not self._stopped.is_set():
                blocked += self._limit
                self._warn(blocked)

    def _warn(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)[-3:]) if frame else ""
        logger.warning(
            "%s has blocked the event loop for %.0f s, so no other handler runs: "
            "use await, asyncio.to_thread, or a handler without async\n%s",
            self._current(),
            seconds,
            stack.rstrip(),
        )

    def _current(self) -> str:
        """Return the name of the task that runs: invocations name theirs after the handler."""
        try:
            task = asyncio.current_task(self._loop)
        except RuntimeError:
            task = None
        return task.get_name() if task else "a callback"
