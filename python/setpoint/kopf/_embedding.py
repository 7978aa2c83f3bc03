"""Operators in the process of another program: kopf.run() and kopf.operator().

The process serves its handlers on a socket, and `setpoint run --operator` runs as its child.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Optional, Union

from setpoint._engine.login import configure_clients_on_import
from setpoint._engine.operator import Operator
from setpoint._engine.registry import Registry, get_default_registry
from setpoint._serve.guard import Endpoint
from setpoint._serve.server import listening
from setpoint._serve.watchdog import Watchdog
from setpoint.kopf._binary import address_arguments, find_binary
from setpoint.kopf._settings import OperatorSettings

logger = logging.getLogger("kopf")

Flag = Union[asyncio.Event, threading.Event, "asyncio.Future[Any]", "concurrent.futures.Future[Any]"]

# How long Setpoint may take to end after a stop, before it is killed.
STOP_TIMEOUT = 30.0
_POLL = 0.1


def run(*, loop: Optional[asyncio.AbstractEventLoop] = None, **options: Any) -> None:
    """Run an operator until it ends; see operator."""
    with contextlib.suppress(asyncio.CancelledError):
        if loop is not None:
            loop.run_until_complete(operator(**options))
        else:
            asyncio.run(operator(**options))


async def operator(
    *,
    registry: Optional[Registry] = None,
    settings: Optional[OperatorSettings] = None,
    memo: Any = None,
    identity: Optional[str] = None,
    standalone: Optional[bool] = None,
    priority: Optional[int] = None,
    peering_name: Optional[str] = None,
    liveness_endpoint: Optional[str] = None,
    clusterwide: bool = False,
    namespaces: Collection[str] = (),
    namespace: Optional[str] = None,
    stop_flag: Optional[Flag] = None,
    ready_flag: Optional[Flag] = None,
    lifecycle: Any = None,
    **unsupported: Any,
) -> None:
    """Run the operator of a registry until the stop flag is raised, or Setpoint ends."""
    given = sorted(name for name, value in unsupported.items() if value is not None)
    if given:
        raise TypeError(f"{given[0]}= is not supported: it is a part of Kopf's own engine")
    served = Operator(
        registry if registry is not None else get_default_registry(),
        name=identity or os.environ.get("SETPOINT_OPERATOR") or "operator",
        settings=settings,
        memo=memo,
        namespaces=tuple(namespaces) + ((namespace,) if namespace else ()),
    )
    arguments = _arguments(standalone, priority, peering_name, liveness_endpoint, clusterwide, served.namespaces)
    # Before the startup handlers, whose effects would be lost without it.
    binary = find_binary()
    configure_clients_on_import()
    with tempfile.TemporaryDirectory(prefix="setpoint-") as folder:
        endpoint = Endpoint(socket=os.path.join(folder, "socket"))
        await served.start()
        try:
            async with listening(served, endpoint):
                with Watchdog(asyncio.get_running_loop()), _signals() as signalled:
                    command = [binary, *arguments, "--operator", f"unix://{endpoint.socket}"]
                    await _run_child(command, served, [signalled, stop_flag], ready_flag)
        finally:
            await served.stop()


async def spawn_tasks(**options: Any) -> Collection[asyncio.Task[Any]]:
    """Start an operator; run_tasks waits for it."""
    return [asyncio.get_running_loop().create_task(operator(**options), name="operator")]


async def run_tasks(tasks: Collection[asyncio.Task[Any]], *, ignored: Collection[asyncio.Task[Any]] = ()) -> None:
    """Wait until one of the tasks ends, and end the others."""
    await _first(tasks)


def _arguments(
    standalone: Optional[bool], priority: Optional[int], peering: Optional[str], liveness: Optional[str],
    clusterwide: bool, namespaces: Iterable[str],
) -> list[str]:
    arguments = ["run"]
    # Without either, Setpoint elects a leader inside of a cluster.
    if standalone:
        arguments.append("--standalone")
    elif peering:
        arguments += ["--peering", peering]
    arguments += ["--priority", str(priority)] if priority else []
    arguments += address_arguments(liveness)
    arguments += ["--all-namespaces"] if clusterwide else []
    for namespace in namespaces:
        arguments += ["-n", namespace]
    return arguments


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """Yield an event that Ctrl-C and SIGTERM set, in the main thread, where Python handles signals."""
    signalled = asyncio.Event()
    if threading.current_thread() is not threading.main_thread():
        yield signalled
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled.set)
    try:
        yield signalled
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _run_child(
    command: list[str], served: Operator, stop_flags: Iterable[Optional[Flag]], ready_flag: Optional[Flag]
) -> None:
    # In a session of its own: a terminal sends Ctrl-C to all processes of one, and this process stops Setpoint. The
    # pipe ends with this process, also if it is killed.
    command.append("--stop-on-stdin-eof")
    child = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, start_new_session=True)
    loop = asyncio.get_running_loop()
    ended = loop.create_task(child.wait())
    tasks: list[asyncio.Task[Any]] = [ended]
    tasks += [loop.create_task(_wait(flag)) for flag in stop_flags if flag is not None]
    ready = loop.create_task(_raise_when_ready(served, ready_flag))
    try:
        await _first(tasks, cancel=False)
        if ended.done() and child.returncode:
            raise RuntimeError(f"setpoint ended with code {child.returncode}; its log has the reason")
    finally:
        for task in (ready, *tasks[1:]):
            task.cancel()
        await _end(child, ended)


async def _end(child: asyncio.subprocess.Process, ended: asyncio.Task[Any]) -> None:
    """End the child, also when this task is being cancelled."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        done, _ = await asyncio.wait({ended}, timeout=STOP_TIMEOUT)
        if not done:
            logger.warning("setpoint has not ended %.0f s after SIGTERM and is killed", STOP_TIMEOUT)
            child.kill()
            await ended


async def _raise_when_ready(served: Operator, flag: Optional[Flag]) -> None:
    """Raise the flag when Setpoint has connected."""
    await served.notifications.connected.wait()
    if isinstance(flag, (asyncio.Event, threading.Event)):
        flag.set()
    elif flag is not None and not flag.done():
        flag.set_result(None)


async def _wait(flag: Flag) -> None:
    """Wait until a flag is raised, also by another thread."""
    if isinstance(flag, asyncio.Event):
        await flag.wait()
    elif isinstance(flag, concurrent.futures.Future):
        await asyncio.wrap_future(flag)
    elif isinstance(flag, threading.Event):
        while not flag.is_set():
            await asyncio.sleep(_POLL)
    else:
        await flag


async def _first(tasks: Collection[asyncio.Task[Any]], *, cancel: bool = True) -> None:
    """Wait for the first of the tasks, and raise its error."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        if cancel:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
