"""Calls a function with keyword arguments: async ones on the event loop, others in a thread."""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from setpoint._engine.bodies import Body
from setpoint._engine.errors import HandlerExit
from setpoint._engine.handlers import ActivityHandler, DaemonHandler, Handler, unwrap
from setpoint._engine.logs import LocalObjectLogger, ObjectLogger
from setpoint._engine.patch import Patch
from setpoint._engine.request import now
from setpoint._engine.selectors import Resource
from setpoint._engine.settings import Settings


def _no_events() -> Optional[list[dict[str, str]]]:
    return []


@dataclass
class Cause:
    """Why handlers of an object are called: the object, and what happened to it."""

    body: Body
    resource: Resource
    memo: Any
    settings: Settings
    indices: Mapping[str, Any]
    patch: Patch = field(default_factory=Patch)
    # The arguments that only some kinds of handlers have, such as reason, old, new and diff.
    extra: Mapping[str, Any] = field(default_factory=dict)
    # The events of the object that go with the response; None sends them at once.
    events: Optional[list[dict[str, str]]] = field(default_factory=_no_events)

    def __post_init__(self) -> None:
        self.logger = ObjectLogger(body=self.body, settings=self.settings)
        self._kwargs: Optional[dict[str, Any]] = None

    @property
    def event_logger(self) -> LocalObjectLogger:
        """The logger for lines that never become events."""
        return LocalObjectLogger(body=self.body, settings=self.settings)

    def kwargs(self) -> dict[str, Any]:
        """Return the arguments of filters; handlers have some more."""
        if self._kwargs is None:
            body, meta = self.body, self.body.meta
            self._kwargs = {
                "resource": self.resource, "body": body, "spec": body.spec, "meta": meta, "status": body.status,
                "uid": meta.uid, "name": meta.name, "namespace": meta.namespace,
                "labels": meta.labels, "annotations": meta.annotations,
                "patch": self.patch, "memo": self.memo, "logger": self.logger,
                **self.extra,
                # An index has precedence, so that a new argument of ours breaks no script.
                **self.indices,
            }
        return self._kwargs


@dataclass
class Call:
    """The call that is running: helpers such as adopt() and register() find it by a context variable."""

    handler: Handler
    settings: Settings
    cause: Optional[Cause] = None
    # What a style keeps for the call, such as the sub-handlers of Kopf.
    parts: Any = None


_current: contextvars.ContextVar[Optional[Call]] = contextvars.ContextVar("setpoint_call", default=None)


def current_call() -> Optional[Call]:
    """Return the call that is running in this context, also in the threads of handlers."""
    return _current.get()


def current_body() -> Optional[Body]:
    """Return the object of the call that is running; None outside of handlers of objects."""
    call = current_call()
    return call.cause.body if call is not None and call.cause is not None else None


async def invoke(
    call: Call, kwargs: Mapping[str, Any], *, attempt: int = 0, started: Optional[datetime.datetime] = None
) -> Any:
    """Call the handler's function, and return its result or raise its error."""
    started = started or now()
    arguments = {
        "param": call.handler.param, "retry": attempt, "started": started, "runtime": now() - started, **kwargs
    }
    token = _current.set(call)
    try:
        return await run(call.handler.fn, arguments, call)
    finally:
        _current.reset(token)


async def run(fn: Callable[..., Any], kwargs: Mapping[str, Any], call: Call) -> Any:
    """Call a function where it belongs."""
    if is_async(fn):
        return await _run_async(fn, kwargs, call)
    context = contextvars.copy_context()

    def work() -> tuple[Any, Optional[Exception]]:
        return context.run(_run_sync, fn, kwargs)

    # The outcome is a value: some exceptions, such as StopIteration, cannot pass through a future.
    result, error = await asyncio.get_running_loop().run_in_executor(call.settings.execution.executor, work)
    if error is not None:
        raise error
    if inspect.isawaitable(result):
        return await _run_async(lambda **_: result, {}, call)
    return result


def is_async(fn: Callable[..., Any]) -> bool:
    """Report whether a function runs on the event loop, also if it is wrapped or a partial."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(unwrap(fn))


async def _run_async(fn: Callable[..., Any], kwargs: Mapping[str, Any], call: Call) -> Any:
    task = asyncio.current_task()
    if task is not None:
        # The watchdog names the task that blocks the loop.
        task.set_name(f"{call.handler} ({call.handler.where})")
    process = os.getpid()
    try:
        return await fn(**kwargs)
    except asyncio.CancelledError as error:
        # Only these are cancelled by us.
        if isinstance(call.handler, (ActivityHandler, DaemonHandler)):
            raise
        raise HandlerExit("the handler was cancelled by itself or by what it awaited") from error
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        _end_if_forked(process, error)
        raise _exit(error) from None
    finally:
        _end_if_forked(process, sys.exc_info()[1])


def _run_sync(fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> tuple[Any, Optional[Exception]]:
    process = os.getpid()
    try:
        result = fn(**kwargs)
    except BaseException as error:
        _end_if_forked(process, error)
        if isinstance(error, StopIteration):
            return None, RuntimeError(f"the handler raised {error!r}")
        return None, error if isinstance(error, Exception) else _exit(error)
    _end_if_forked(process)
    return result, None


def _end_if_forked(process: int, error: Optional[BaseException] = None) -> None:
    """End a copy of the process that a handler has forked: after the handler, it would serve calls too."""
    if os.getpid() == process:
        return
    code = error.code if isinstance(error, SystemExit) else error
    os._exit(code if isinstance(code, int) else int(code is not None))


def _exit(error: BaseException) -> HandlerExit:
    """Return the error that stands for one that would end the process, with the line that raised it."""
    what = f"called sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"raised {type(error).__name__}"
    exited = HandlerExit(f"the handler {what}, which does not end the operator: raise kopf.PermanentError instead")
    return exited.with_traceback(error.__traceback__)
