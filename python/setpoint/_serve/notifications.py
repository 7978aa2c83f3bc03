"""The stream of notifications: lines with which a process lets Setpoint act between its calls."""

from __future__ import annotations

import asyncio
import collections
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any, Optional

from setpoint._serve.message import Request, Response, encode

logger = logging.getLogger(__name__)

# An empty line each time shows that the process lives.
HEARTBEAT = 10.0
# What is kept while Setpoint is away: then it collects from every daemon anyway.
MAX_WAITING = 10_000
# How many lines are sent at once.
MAX_LINES = 100


class Notifications:
    """Lines for Setpoint, from any thread. The newest connection gets them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: collections.deque[bytes] = collections.deque()
        self._reader: Optional[_Reader] = None
        self._connected: Optional[asyncio.Event] = None

    @property
    def connected(self) -> asyncio.Event:
        """Set when Setpoint has connected once."""
        # Made where it is used: before Python 3.10, an event belongs to the loop of its creation.
        if self._connected is None:
            self._connected = asyncio.Event()
        return self._connected

    def send(self, line: Mapping[str, Any]) -> None:
        """Send one line, now or when Setpoint connects."""
        data = encode(line) + b"\n"
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.popleft()
                logger.warning("a notification is lost: Setpoint has not read the %d after it", MAX_WAITING)
            self._waiting.append(data)
            if self._reader is not None:
                self._reader.wake()

    async def route(self, request: Request, path: str) -> Response:
        """Serve GET /notifications."""
        reader = _Reader()
        with self._lock:
            if self._reader is not None:
                self._reader.end()
            self._reader = reader
        self.connected.set()
        return Response(content_type="application/jsonl", stream=self._stream(reader))

    def close(self) -> None:
        """End the stream, because the process ends."""
        with self._lock:
            if self._reader is not None:
                self._reader.end()

    async def _stream(self, reader: _Reader) -> AsyncIterator[bytes]:
        yield b"\n"  # The connection is open.
        while not reader.ended:
            lines = self._take(reader)
            if lines:
                yield b"".join(lines)
            elif not await reader.wait(HEARTBEAT):
                yield b"\n"

    def _take(self, reader: _Reader) -> list[bytes]:
        with self._lock:
            if reader is not self._reader:
                return []
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_LINES))]


class _Reader:
    """One connection of Setpoint."""

    def __init__(self) -> None:
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        # A thread of a handler may outlive the loop.
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            self.ended = True

    def end(self) -> None:
        self.ended = True
        self.wake()

    async def wait(self, seconds: float) -> bool:
        """Report whether there may be a line, after at most that long."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        self._event.clear()
        return True
