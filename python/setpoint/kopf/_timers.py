"""Timers: handlers that Setpoint calls repeatedly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint._engine.durations import duration
from setpoint._engine.errors import DeclarationError
from setpoint._engine.invocation import Call, Cause, invoke
from setpoint._engine.outcome import Attempts, outcome_of
from setpoint._engine.request import NOT_APPLICABLE, HandlerRequest, now, parse_time
from setpoint._engine.response import respond_outcome, storable
from setpoint._engine.selection import matches, selectors
from setpoint._engine.units import Unit
from setpoint.kopf._handlers import TimerHandler

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator

# A timer without an interval is called once in each process.
_ONCE = "87600h"
# Setpoint has no intervals below a second.
_SHORTEST = 1.0


def declare(operator: Operator, unit: Unit) -> dict[str, Any]:
    """Return the handler as Setpoint reads it."""
    timer = unit.first
    assert isinstance(timer, TimerHandler)
    if any(_schedule(d) != _schedule(timer) for d in unit.definitions):
        raise DeclarationError(f"{timer}: {timer.where} has several timers with different schedules: give each its own id=")
    return {**_schedule(timer), **selectors(unit.definitions)}


def _schedule(timer: Any) -> dict[str, Any]:
    if timer.interval is None and timer.idle:
        return {"reasons": ["Create", "Update"], "debounce": duration(timer.idle)}
    delay = timer.initial_delay
    schedule: dict[str, Any] = {
        "every": _ONCE if timer.interval is None else duration(max(timer.interval, _SHORTEST)),
        # Of a function, the first call decides.
        "initialDelay": "0s" if not delay or callable(delay) else duration(delay),
    }
    if timer.sharp:
        schedule["sharp"] = True
    if timer.idle:
        schedule["idle"] = duration(timer.idle)
    return schedule


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Call the function once."""
    cause = operator.cause(request, {})
    definition = next((d for d in unit.definitions if matches(d, request.object, cause.kwargs)), None)
    if definition is None:
        return NOT_APPLICABLE
    assert isinstance(definition, TimerHandler)
    if request.dry_run:
        return {"message": f"{definition} would be called; a handler of Kopf has no dry run"}
    delay = _remaining_delay(operator, unit, definition, cause, request)
    if delay > 0:
        return {"retryAfterSeconds": delay}
    attempts = Attempts(request.attempt, request.first_attempt or now(), backoff=cause.settings.execution.default_backoff)
    call = Call(definition, cause.settings, cause)
    work = storable(definition, invoke(call, cause.kwargs(), attempt=attempts.count, started=attempts.started))
    outcome = await outcome_of(work, definition, attempts, cause.logger, writes=True)
    return respond_outcome(cause, definition, outcome)


def _remaining_delay(
    operator: Operator, unit: Unit, timer: TimerHandler, cause: Cause, request: HandlerRequest
) -> float:
    """Return how long the call must wait although Setpoint has made it."""
    if request.reason == "Create" and timer.idle:
        created = parse_time(cause.body.meta.creation_timestamp)
        return timer.idle - (now() - created).total_seconds() if created else 0
    if callable(timer.initial_delay) and operator.memos.is_first(cause.body, unit.name):
        return float(timer.initial_delay(**cause.kwargs()))
    return 0
