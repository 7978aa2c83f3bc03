"""Drops the memos of objects that are gone: an own handler that Setpoint calls after their deletion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from setpoint._engine.arguments import calls, reads
from setpoint._engine.handlers import ResourceHandler
from setpoint._engine.request import HandlerRequest
from setpoint._engine.selectors import Selector
from setpoint._engine.units import Unit

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator

_MEMO = frozenset({"memo"})
# What our own decorators have for it.
_MEMORY = frozenset({"memory"})


@dataclass(frozen=True, eq=False)
class ForgettingHandler(ResourceHandler):
    """Not the author's."""


def forgetting_unit(selector: Selector, handlers: Iterable[ResourceHandler]) -> Optional[Unit]:
    """Return the handler that drops memos; None if no function of the script reads them."""
    functions = [fn for h in handlers for fn in (h.fn, h.when) if fn is not None]
    if not any(reads(fn, _MEMO) or calls(fn, _MEMORY) for fn in functions):
        return None
    return Unit("forget-memo", [ForgettingHandler(id="forget-memo", fn=print, selector=selector)])


def declare(operator: Operator, unit: Unit) -> dict[str, Any]:
    """Return the handler as Setpoint reads it. Optional, so that it needs no finalizer."""
    return {"reasons": ["Delete"], "optional": True}


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Drop the memo of the object."""
    if not request.dry_run:
        operator.memos.forget(request.object)
    return {}
