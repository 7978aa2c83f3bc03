"""Daemons: a task or a thread for each object. Setpoint says when they start and stop.

A daemon lives between the calls about it. What it wants written goes with the response to the next
call after its end, which a notification makes come at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional

from setpoint._engine.bodies import build_object_reference
from setpoint._engine.durations import duration
from setpoint._engine.filters import FilterError
from setpoint._engine.handlers import DaemonHandler
from setpoint._engine.invocation import Call, Cause, invoke, is_async
from setpoint._engine.outcome import Attempts, Outcome, outcome_of
from setpoint._engine.patch import Patch
from setpoint._engine.request import NOT_APPLICABLE, HandlerRequest
from setpoint._engine.response import respond_outcome, storable
from setpoint._engine.selection import matches, selectors
from setpoint._engine.stopped import AsyncDaemonStopped, DaemonStoppingReason, Stopper, SyncDaemonStopped
from setpoint._engine.units import Unit

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator

# How long a daemon without cancellation_timeout has before it is cancelled and abandoned.
STOP_TIMEOUT = 30.0
# How long the call that stops a daemon waits for its end: most end at once.
INSTANT = 0.1
# Setpoint waits longer than the runner, which knows more about a daemon that does not stop.
MARGIN = 5.0
# How long daemons have when the process ends.
EXIT_TIMEOUT = 5.0
# How many daemons that have ended for good are remembered, the newest.
MAX_FINISHED = 100_000


class NotRunning(LookupError):
    """A call is about a daemon that this process does not run: Setpoint shall start it."""


def declare(operator: Operator, unit: Unit) -> dict[str, Any]:
    """Return the handler as Setpoint reads it."""
    timeout = max(sum(_stop_times(d)) for d in _definitions(unit))
    return {"daemon": {"stopTimeout": duration(timeout + MARGIN)}, **selectors(unit.definitions)}


def _definitions(unit: Unit) -> list[DaemonHandler]:
    return [d for d in unit.definitions if isinstance(d, DaemonHandler)]


def _stop_times(handler: DaemonHandler) -> tuple[float, float]:
    """Return how long a daemon has until it is cancelled, and then until it is abandoned."""
    backoff = handler.cancellation_backoff or 0
    if handler.cancellation_timeout is None:
        # Kopf waits forever, and with it everyone who deleted the object.
        return backoff + STOP_TIMEOUT, 1
    return backoff, handler.cancellation_timeout


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Serve one call about the daemon of one object."""
    cause = operator.cause(request, {})
    try:
        definition = next((d for d in _definitions(unit) if matches(d, request.object, cause.kwargs)), None)
    except FilterError:
        if request.daemon != "Stop":
            raise
        definition = None  # It stops, whatever the filter says.
    if request.reason == "Match":
        return {"applicable": definition is not None}
    if request.dry_run:
        return {"message": f"{unit.first} would be called: {request.daemon}"}
    return await operator.daemons.call(unit, definition, request, cause)


Key = tuple[int, str]


class Daemons:
    """The daemons of one process, at most one of each handler and object."""

    def __init__(self, notify: Callable[[Mapping[str, Any]], None]) -> None:
        self._notify = notify
        # The runs that go on, and those whose response has not been collected.
        self._runs: dict[Key, _Run] = {}
        # The daemons that ended by themselves, in the order of their ends.
        self._finished: dict[Key, None] = {}

    async def call(
        self, unit: Unit, definition: Optional[DaemonHandler], request: HandlerRequest, cause: Cause
    ) -> dict[str, Any]:
        """Serve one call. definition is the decorator that is for the object; None if none is."""
        key = (id(unit), cause.body.meta.uid)
        run = self._runs.get(key)
        if request.daemon == "Stop":
            return await self._stop(key, run, _stop_reason(definition, request))
        if definition is None:
            return NOT_APPLICABLE
        if run is not None and not run.stopper.is_set():
            run.body.replace(request.object)
            return self._collect(key, run)
        if run is not None and not run.ended:
            # After Stop, until the former run has ended; an abandoned thread may go on for long.
            return {"error": {"message": f"{definition} has not stopped yet"}, "retryAfterSeconds": 1}
        if request.daemon != "Start":
            raise NotRunning(f"{definition} does not run for {cause.body.meta.name}")
        if key in self._finished:
            # It would run again in another process only.
            return {"finished": True}
        former = self._release(key, run)
        self._runs[key] = _Run(definition, request, cause, lambda run: self._changed(key, run))
        return former

    async def close(self) -> None:
        """Stop all daemons, because the process ends."""
        runs = [run for run in self._runs.values() if not run.ended]
        for run in runs:
            run.stop(DaemonStoppingReason.OPERATOR_EXITING)
        if runs:
            await asyncio.wait([run.task for run in runs], timeout=EXIT_TIMEOUT)
        for run in runs:
            run.cancel()

    def _changed(self, key: Key, run: _Run) -> None:
        """Take the end of a run, or that it was abandoned."""
        if run.abandoned and run.ended:
            del self._runs[key]
        else:
            self._notify(build_object_reference(run.body))

    def _collect(self, key: Key, run: _Run) -> dict[str, Any]:
        """Return the response of a run that has ended, once."""
        if run.outcome is None:
            return {}
        del self._runs[key]
        response = respond_outcome(run.cause, run.handler, run.outcome)
        if not run.outcome.retried:
            self._remember(key)
        return response if "error" in response else {**response, "finished": True}

    def _remember(self, key: Key) -> None:
        self._finished[key] = None
        if len(self._finished) > MAX_FINISHED:
            del self._finished[next(iter(self._finished))]

    async def _stop(self, key: Key, run: Optional[_Run], reason: DaemonStoppingReason) -> dict[str, Any]:
        if reason is DaemonStoppingReason.RESOURCE_DELETED:
            self._finished.pop(key, None)
        elif run is not None and run.outcome is not None and not run.outcome.retried and not run.stopper.is_set():
            self._remember(key)
        if run is not None and not run.ended:
            run.stop(reason)
            await asyncio.wait([run.task], timeout=INSTANT)
        if run is None or run.ended:
            return {**self._release(key, run), "finished": True}
        return {"finished": True, "events": [_abandoned(run)]} if run.abandoned else {}

    def _release(self, key: Key, run: Optional[_Run]) -> dict[str, Any]:
        """Drop a run that has ended, and return what it wants written. Its error has been logged."""
        if run is None or run.outcome is None:
            return {}
        self._runs.pop(key, None)
        response = respond_outcome(run.cause, run.handler, run.outcome.finished())
        return response if "error" not in response else {}


def _stop_reason(definition: Optional[DaemonHandler], request: HandlerRequest) -> DaemonStoppingReason:
    metadata = request.object.get("metadata") or {}
    if request.deleted or metadata.get("deletionTimestamp"):
        return DaemonStoppingReason.RESOURCE_DELETED
    if definition is None:
        return DaemonStoppingReason.FILTERS_MISMATCH
    return DaemonStoppingReason.OPERATOR_EXITING


def _abandoned(run: _Run) -> dict[str, str]:
    message = f"{run.handler} did not stop within {sum(_stop_times(run.handler)):g} s and was abandoned"
    return {"type": "Warning", "reason": "DaemonAbandoned", "message": message}


class _Run:
    """One attempt of a daemon for one object."""

    def __init__(
        self, handler: DaemonHandler, request: HandlerRequest, cause: Cause, changed: Callable[[_Run], None]
    ) -> None:
        self.handler = handler
        self.body = cause.body
        self.stopper = Stopper()
        self.abandoned = False
        self.outcome: Optional[Outcome] = None
        stopped = (AsyncDaemonStopped if is_async(handler.fn) else SyncDaemonStopped)(self.stopper)
        # Events are sent at once, and functions of the patch see the object as it is then.
        self.cause = dataclasses.replace(
            cause, patch=Patch(body=cause.body), extra={**cause.extra, "stopped": stopped}, events=None
        )
        self._request = request
        self._changed = changed
        self._stopping: Optional[asyncio.Task[None]] = None
        self.task = asyncio.get_running_loop().create_task(self._run())

    @property
    def ended(self) -> bool:
        """Whether the function has returned."""
        return self.outcome is not None

    def stop(self, reason: DaemonStoppingReason) -> None:
        """Set the flag, and see to it that the daemon ends."""
        self.stopper.set(reason)
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._enforce())

    def cancel(self) -> None:
        """Let the task of the daemon end, and no longer wait for it."""
        self.task.cancel()
        if self._stopping is not None:
            self._stopping.cancel()

    async def _run(self) -> None:
        try:
            self.outcome = await self._attempt()
        except asyncio.CancelledError:
            self.outcome = Outcome()
        finally:
            self._changed(self)

    async def _attempt(self) -> Outcome:
        request, settings = self._request, self.cause.settings
        attempts = Attempts(request.attempt, request.first_attempt, backoff=settings.execution.default_backoff)
        return await outcome_of(storable(self.handler, self._work(attempts)), self.handler, attempts, self.cause.logger)

    async def _work(self, attempts: Attempts) -> Any:
        kwargs = self.cause.kwargs()
        if attempts.count == 0 and self.handler.initial_delay is not None:
            delay = self.handler.initial_delay
            await AsyncDaemonStopped(self.stopper).wait(delay(**kwargs) if callable(delay) else delay)
        if self.stopper.is_set():
            return None
        execution = dataclasses.replace(self.cause.settings.execution, executor=_Threads())
        call = Call(self.handler, dataclasses.replace(self.cause.settings, execution=execution), self.cause)
        return await invoke(call, kwargs, attempt=attempts.count, started=attempts.started)

    async def _enforce(self) -> None:
        """Cancel the daemon if it does not end in time, and abandon it if that does not help."""
        until_cancelled, until_abandoned = _stop_times(self.handler)
        if self.handler.cancellation_backoff:
            self.stopper.set(DaemonStoppingReason.DAEMON_SIGNALLED)
        if await self._ends_within(until_cancelled):
            return
        self.stopper.set(DaemonStoppingReason.DAEMON_CANCELLED)
        if is_async(self.handler.fn):
            self.task.cancel()
        if await self._ends_within(until_abandoned):
            return
        self.stopper.set(DaemonStoppingReason.DAEMON_ABANDONED)
        self.cause.logger.warning(
            f"{self.handler} did not stop in time and is abandoned: it must look at stopped ({self.handler.where})"
        )
        self.abandoned = True
        self._changed(self)

    async def _ends_within(self, seconds: float) -> bool:
        await asyncio.wait([self.task], timeout=seconds)
        return self.ended


class _Threads(concurrent.futures.Executor):
    """A thread for each daemon: a pool would be used up by the first ones.

    They are daemon threads, so that one that does not end cannot keep the process alive.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def run() -> None:
            result = fn(*args, **kwargs)
            # The task that waited may have been cancelled.
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                future.set_result(result)

        threading.Thread(target=run, name="daemon", daemon=True).start()
        return future
