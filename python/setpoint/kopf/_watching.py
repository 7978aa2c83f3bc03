"""Handlers of raw events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from setpoint._engine.errors import ErrorsMode
from setpoint._engine.invocation import Call, invoke
from setpoint._engine.outcome import Attempts, outcome_of
from setpoint._engine.request import NOT_APPLICABLE, HandlerRequest
from setpoint._engine.response import respond_outcome
from setpoint._engine.selection import matches, selectors
from setpoint._engine.units import Unit

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator


def declare(operator: Operator, unit: Unit) -> dict[str, Any]:
    """Return the handler as Setpoint reads it."""
    return {"reasons": ["Event"], **selectors(unit.definitions)}


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Call the function for one event. An error is logged, and there is no retry."""
    kind = _type(request)
    event = {"type": kind, "object": request.object}
    cause = operator.cause(request, {"type": kind, "event": event})
    definition = next((d for d in unit.definitions if matches(d, request.object, cause.kwargs)), None)
    if definition is None:
        return NOT_APPLICABLE
    call = Call(definition, cause.settings, cause)
    outcome = await outcome_of(
        invoke(call, cause.kwargs()), definition, Attempts(errors=ErrorsMode.IGNORED), cause.event_logger
    )
    # An error of an event is no failure of the object.
    return respond_outcome(cause, definition, outcome.finished())


def _type(request: HandlerRequest) -> Optional[str]:
    """Return the type of the event as Kopf has it: None for an object that a list returned."""
    if request.event == "Listed" or (request.event is None and not request.deleted):
        return None
    return "DELETED" if request.deleted or request.event is None else request.event.upper()
