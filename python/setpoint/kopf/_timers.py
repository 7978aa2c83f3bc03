"""Timers: handlers that Setpoint calls repeatedly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.kopf._durations import duration
from setpoint.kopf._handlers import TimerHandler
from setpoint.kopf._invocation import Call, invoke
from setpoint.kopf._outcome import Attempts, outcome_of
from setpoint.kopf._registry import DeclarationError
from setpoint.kopf._request import HandlerRequest, now
from setpoint.kopf._response import NOT_APPLICABLE, respond_outcome
from setpoint.kopf._selection import matches, selectors
from setpoint.kopf._units import Unit

if TYPE_CHECKING:
    from setpoint.kopf._operator import Operator

# A timer that may start at once: Setpoint has no delay of zero.
_AT_ONCE = 0.001


def declare(unit: Unit) -> dict[str, Any]:
    """Return the handler as Setpoint reads it."""
    timer = unit.first
    assert isinstance(timer, TimerHandler)
    if any(_schedule(d) != _schedule(timer) for d in unit.definitions):
        raise DeclarationError(f"{timer}: {timer.where} has several timers with different schedules: give each its own id=")
    return {**_schedule(timer), **selectors(unit.definitions)}


def _schedule(timer: Any) -> dict[str, Any]:
    if callable(timer.initial_delay):
        raise DeclarationError(f"{timer}: {timer.where}: a function as initial_delay= is not supported; give a number")
    delay = duration(timer.initial_delay or _AT_ONCE)
    if timer.interval is None:
        return _once(timer, delay)
    schedule = {"every": duration(max(timer.interval, 1)), "initialDelay": delay}
    if timer.sharp:
        schedule["sharp"] = True
    if timer.idle:
        schedule["idle"] = duration(timer.idle)
    return schedule


def _once(timer: TimerHandler, delay: str) -> dict[str, Any]:
    """A timer without an interval: once after each change has settled, or once for each object."""
    if timer.idle:
        return {"reasons": ["Create", "Update"], "debounce": duration(timer.idle)}
    return {"reasons": ["Create", "Resume"]}


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Call the function once."""
    cause = operator.cause(request, {})
    definition = next((d for d in unit.definitions if matches(d, request.object, cause.kwargs)), None)
    if definition is None:
        return NOT_APPLICABLE
    if request.dry_run:
        return {"message": f"{definition} would be called; a handler of Kopf has no dry run"}
    attempts = Attempts(request.attempt, request.first_attempt or now(), backoff=cause.settings.execution.default_backoff)
    call = Call(definition, cause.settings, cause)
    work = invoke(call, cause.kwargs(), attempt=attempts.count, started=attempts.started)
    outcome = await outcome_of(work, definition, attempts, cause.logger)
    return respond_outcome(cause, definition, outcome)
