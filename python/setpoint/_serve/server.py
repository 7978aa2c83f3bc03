"""The life of the process: listen, serve until a signal or the end of the parent, stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import stat
import threading
from collections.abc import AsyncIterator
from typing import Optional

from setpoint._serve.application import Application
from setpoint._serve.guard import Endpoint, guarded
from setpoint._serve.http import Connection
from setpoint._serve.loading import digest
from setpoint._serve.routes import router
from setpoint._serve.watchdog import Watchdog

logger = logging.getLogger(__name__)

# How long running calls may go on after a signal. Setpoint repeats those that are lost.
STOP_TIMEOUT = 20.0


async def serve(
    application: Application, endpoint: Endpoint, *, stop: Optional[asyncio.Event] = None
) -> None:
    """Serve an application until SIGINT, SIGTERM, the event, or the end of the parent."""
    stop = stop or asyncio.Event()
    _watch_signals(stop)
    _watch_parent(stop)
    if not await _started(application, stop):
        return
    try:
        async with listening(application, endpoint):
            logger.debug("serving on %s", endpoint)
            with Watchdog(asyncio.get_running_loop()):
                await stop.wait()
    finally:
        await application.stop()
    _warn_of_threads()


@contextlib.asynccontextmanager
async def listening(application: Application, endpoint: Endpoint) -> AsyncIterator[None]:
    """Listen; at the end, wait for the calls that are running."""
    connections: set[Connection] = set()
    loop = asyncio.get_running_loop()
    handle = guarded(router(application), endpoint)
    code = digest()

    def connect() -> Connection:
        return Connection(handle, connections, code)

    if endpoint.socket:
        _remove_stale_socket(endpoint.socket)
        server: asyncio.AbstractServer = await loop.create_unix_server(connect, endpoint.socket, backlog=512)
    else:
        server = await loop.create_server(connect, endpoint.host, endpoint.port, backlog=512)
    try:
        yield
    finally:
        server.close()
        await _drain(connections)
        if endpoint.socket:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(endpoint.socket)


async def _started(application: Application, stop: asyncio.Event) -> bool:
    """Start an application; False if it is stopped before. A startup handler may be retried for long."""
    starting = asyncio.ensure_future(application.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return False
    starting.result()
    return True


async def _drain(connections: set[Connection]) -> None:
    """Close idle connections, and the others when their calls have ended or time is up."""
    deadline = asyncio.get_running_loop().time() + STOP_TIMEOUT
    while connections and asyncio.get_running_loop().time() < deadline:
        for connection in [c for c in connections if not c.busy]:
            connection.close()
        await asyncio.sleep(0.01)
    for connection in list(connections):
        connection.close()


def _remove_stale_socket(path: str) -> None:
    """Remove the socket of a process that was killed, but no other file."""
    with contextlib.suppress(FileNotFoundError):
        if not os.path.isfile(path) and not os.path.isdir(path):
            os.unlink(path)


def _watch_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


def _watch_parent(stop: asyncio.Event) -> None:
    """Stop when a pipe at standard input closes: the kernel closes that of a parent that was killed, too.

    A container has a file there, which ends at once and means nothing.
    """
    loop = asyncio.get_running_loop()
    try:
        # A copy, so that a script that closes or reads sys.stdin has no effect.
        pipe = os.dup(0)
        mode = os.fstat(pipe).st_mode
    except OSError:
        return
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        os.close(pipe)
        return

    def wait() -> None:
        while os.read(pipe, 4096):
            pass
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)
        # A handler that blocks the loop must not keep the process alive without its parent.
        threading.Event().wait(STOP_TIMEOUT + 5)
        os._exit(1)

    threading.Thread(target=wait, name="setpoint-parent", daemon=True).start()


def _warn_of_threads() -> None:
    """Name the threads that handlers left: the interpreter would wait for them forever."""
    left = [
        thread.name
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not thread.daemon and not _is_executor(thread)
    ]
    if left:
        logger.warning("these threads have not ended and are abandoned: %s", ", ".join(sorted(left)))


def _is_executor(thread: threading.Thread) -> bool:
    return thread.name.startswith(("ThreadPoolExecutor", "asyncio", "handler"))
