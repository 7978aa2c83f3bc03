"""Handlers of the package's own style: how they are declared and called."""

from __future__ import annotations

import traceback
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from setpoint._call import Call, Retry
from setpoint._engine import invocation
from setpoint._engine.durations import duration
from setpoint._engine.errors import DeclarationError
from setpoint._engine.errors import PermanentError
from setpoint._engine.handlers import ResourceHandler
from setpoint._engine.registry import get_default_registry
from setpoint._engine.request import NO_EFFECT, NOT_APPLICABLE, HandlerRequest
from setpoint._engine.selection import matches, selectors
from setpoint._engine.style import Kind, Style
from setpoint._engine.units import Controller, Unit
from setpoint._serve.message import NotJSON, encode

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator


@dataclass(frozen=True, eq=False)
class CallHandler(ResourceHandler):
    """A function that receives a Call."""

    reasons: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    # apiVersion/plural of the kinds that the function applies.
    owns: Collection[str] = ()
    optional: bool = False
    every: Optional[float] = None
    idle: Optional[float] = None


def _owned(name: str) -> dict[str, str]:
    api_version, slash, plural = name.rpartition("/")
    if not slash:
        raise DeclarationError(f"owns=: {name!r} must be apiVersion/plural, such as v1/configmaps or apps/v1/deployments")
    return {"apiVersion": api_version, "resource": plural}


def declare(operator: Operator, unit: Unit) -> dict[str, Any]:
    """Return the handler as Setpoint reads it."""
    definitions = _definitions(unit)
    declared = {**_trigger(definitions), **selectors(unit.definitions)}
    first = definitions[0]
    if first.retries is not None:
        declared["retries"] = first.retries
    if first.timeout is not None:
        declared["retryTimeout"] = duration(first.timeout)
    if first.backoff is not None:
        declared["backoff"] = {"initial": duration(first.backoff)}
    return declared


def _trigger(definitions: list[CallHandler]) -> dict[str, Any]:
    reasons = list(dict.fromkeys(reason for d in definitions for reason in d.reasons))
    declared: dict[str, Any] = {"reasons": reasons} if reasons else {}
    fields = [d.fields for d in definitions if "Update" in d.reasons]
    if fields and all(fields):
        declared["fields"] = list(dict.fromkeys(field for some in fields for field in some))
    if "Delete" in reasons and all(d.optional for d in definitions if "Delete" in d.reasons):
        declared["optional"] = True
    timers = [d for d in definitions if d.every is not None]
    if len(timers) > 1:
        raise DeclarationError(f"{timers[1]}: {timers[1].where} has two timers: give one of them name=")
    for timer in timers:
        declared["every"] = duration(timer.every or 0)
        if timer.idle is not None:
            declared["idle"] = duration(timer.idle)
    return declared


def _definitions(unit: Unit) -> list[CallHandler]:
    return [d for d in unit.definitions if isinstance(d, CallHandler)]


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Call the function once."""
    cause = operator.cause(request, {})
    matching = [d for d in _definitions(unit) if matches(d, request.object, cause.kwargs)]
    handler = next((d for d in matching if _is_for(d, request)), None)
    if request.reason == "Match":
        return {"applicable": handler is not None}
    if handler is None:
        # Another decorator of the function handles the object, so that it has now seen this state.
        return NO_EFFECT if matching else NOT_APPLICABLE
    if request.dry_run:
        return {"message": f"{handler} would be called; functions of Python have no dry run"}
    call = Call(cause, request)
    running = invocation.Call(handler, cause.settings, cause)
    try:
        result = await invocation.invoke(running, {"call": call})
        response = _response(call, result)
        encode(response)
        return response
    except Exception as error:
        return _failure(call, handler, error)


def _is_for(handler: CallHandler, request: HandlerRequest) -> bool:
    if request.reason == "Match":
        return "Delete" in handler.reasons and not handler.optional
    return request.reason in handler.reasons or (request.reason == "Timer" and handler.every is not None)


def _response(call: Call, result: Any) -> dict[str, Any]:
    call.apply(*_objects(result))
    patch = call._cause.patch.merged()
    response: dict[str, Any] = {"status": patch.pop("status", None), "patch": patch, **call.response}
    response["events"] = call._cause.events
    response["message"] = call.message
    if call.requeue_seconds is not None:
        response["retryAfterSeconds"] = max(call.requeue_seconds, 0.001)
    return {key: value for key, value in response.items() if value}


def _objects(result: Any) -> list[Any]:
    """Return the objects that a function has returned."""
    objects = [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
    for obj in objects:
        if not isinstance(obj, dict) or not obj.get("kind"):
            raise PermanentError(f"a handler returns None, an object or a list of objects to apply; not {obj!r}")
    return objects


def _failure(call: Call, handler: CallHandler, error: Exception) -> dict[str, Any]:
    """Return the response after an error: nothing is written but events."""
    response: dict[str, Any] = {"events": call._cause.events} if call._cause.events else {}
    if isinstance(error, Retry):
        call.log.error(f"{handler} failed: {error}")
        after = {} if error.after is None else {"retryAfterSeconds": max(error.after, 0.001)}
        return {**response, "error": {"message": str(error)}, **after}
    if isinstance(error, PermanentError):
        call.log.error(f"{handler} failed permanently: {error}")
        return {**response, "error": {"message": str(error), "permanent": True}}
    if isinstance(error, NotJSON):
        # Another call would do all again, and return the like.
        message = f"{handler}: its response cannot be written: {error}"
        call.log.error(message)
        return {**response, "error": {"message": message, "permanent": True}}
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    call.log.error(f"{handler} failed: {message}", exc_info=error)
    return {**response, "error": {"message": message}}


class CallStyle(Style):
    """The package's own style."""

    kinds = {**Style.kinds, CallHandler: Kind(declare, handle)}

    def spec(self, controllers: list[Controller], controller: Controller) -> dict[str, Any]:
        handlers = [handler for unit in controller.units for handler in _definitions(unit)]
        names = dict.fromkeys(name for handler in handlers for name in handler.owns)
        return {"owns": [_owned(name) for name in names]} if names else {}


get_default_registry().style = CallStyle
