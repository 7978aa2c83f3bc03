"""Handlers of creations, updates, deletions and resumptions, and of fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional

from setpoint._engine import diffs
from setpoint._engine.dicts import resolve
from setpoint._engine.durations import duration
from setpoint._engine.filters import MISSING, match_value
from setpoint._engine.handlers import ResourceHandler
from setpoint._engine.invocation import Call, Cause, invoke
from setpoint._engine.outcome import Attempts, Outcome, outcome_of
from setpoint._engine.request import NO_EFFECT, NOT_APPLICABLE, HandlerRequest, now
from setpoint._engine.response import respond_outcome, storable
from setpoint._engine.selection import matches_states, naming, selectors
from setpoint._engine.units import Unit
from setpoint.kopf._essence import essence
from setpoint.kopf._handlers import ChangingHandler, Reason
from setpoint.kopf._previous import may_be_stored, needs_previous
from setpoint.kopf._subhandlers import Children, Progress, state_digest
from setpoint.kopf._takeover import takeover

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator

# What Setpoint calls the reasons of Kopf. A handler of a field is also called when it appears.
_REASONS = {
    Reason.CREATE: ["Create"],
    Reason.UPDATE: ["Update"],
    Reason.DELETE: ["Delete"],
    Reason.RESUME: ["Resume"],
    None: ["Create", "Update"],
}
# How long Setpoint waits beyond a timeout that is counted here.
_MARGIN = 5.0
_ORDER = ["Create", "Update", "Delete", "Resume"]


def declare(operator: Operator, unit: Unit) -> dict[str, Any]:
    """Return the handler as Setpoint reads it."""
    definitions = _definitions(unit)
    reasons = {reason for d in definitions for reason in _REASONS[d.reason]}
    if any(d.deleted for d in definitions):
        reasons.add("Delete")
    filters = _selectors(unit)
    if reasons & {"Update", "Resume"} and not takeover(operator).annotation:
        # The first call for an object says whether Kopf has handled it.
        reasons.add("Create")
    declared: dict[str, Any] = {"reasons": [reason for reason in _ORDER if reason in reasons], **filters}
    if "Update" in reasons:
        stored = all(d.selector is not None and may_be_stored(d.selector) for d in definitions)
        if stored and needs_previous(definitions):
            declared["previousState"] = "Record"
        fields = _fields(definitions)
        if fields:
            declared["fields"] = fields
    deleting = [d for d in definitions if d.reason is Reason.DELETE]
    if "Delete" in reasons and all(d.optional for d in deleting):
        declared["optional"] = True
    first = unit.first
    if first.retries is not None:
        # Python counts; this makes Setpoint keep the count over restarts.
        declared["retries"] = max(first.retries, 1)
    if first.timeout:
        # A failure is judged here, so that Setpoint's clock must not be first.
        declared["retryTimeout"] = duration(first.timeout + _MARGIN)
    return declared


def _definitions(unit: Unit) -> list[ChangingHandler]:
    return _changing(unit.definitions)


def _changing(handlers: list[ResourceHandler]) -> list[ChangingHandler]:
    return [handler for handler in handlers if isinstance(handler, ChangingHandler)]


def _selectors(unit: Unit) -> dict[str, Any]:
    """Return the selectors that all handlers of the objects have; what else this one requires, Python decides."""
    own, shared = selectors(unit.definitions), selectors(unit.siblings)
    declared = {name: own[name] for name in ("labelSelector", "annotationSelector") if name in own and name in shared}
    if own != declared:
        declared["conditional"] = True
    return declared


def _fields(definitions: list[ChangingHandler]) -> list[str]:
    """Return the watched fields; none, which means all, if a decorator has no field."""
    updating = [d for d in definitions if d.reason in (Reason.UPDATE, None)]
    if not all(d.field for d in updating):
        return []
    return list(dict.fromkeys(_path(d.field) for d in updating))


def _path(field: tuple[str, ...]) -> str:
    """Write a field as Setpoint reads it: names with dots or brackets are quoted."""
    path = ""
    for name in field:
        if any(character in name for character in ".[]'\""):
            path += f'["{name}"]'
        else:
            path += f".{name}" if path else name
    return path


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Call the function for one change of one object."""
    change = _change(operator, unit, request)
    if request.reason == "Match":
        deleting = [d for d in _definitions(unit) if d.reason is Reason.DELETE and not d.optional]
        return {"applicable": any(change.prematches(d) for d in deleting)}
    if change.is_bookkeeping:
        return NO_EFFECT
    definition = change.definition(_definitions(unit))
    if definition is None:
        return NO_EFFECT if change.is_seen(_changing(unit.siblings)) else NOT_APPLICABLE
    if request.dry_run:
        return {"message": f"{definition} would be called; a handler of Kopf has no dry run"}
    return await _call(change, unit, definition, request)


async def _call(change: Change, unit: Unit, definition: ChangingHandler, request: HandlerRequest) -> dict[str, Any]:
    cause = change.narrowed(definition)
    progress = Progress(request.progress, state_digest(change.new))
    children = Children(definition, change, progress)
    call = Call(definition, cause.settings, cause, children)
    attempts = Attempts(
        count=request.attempt + progress.cycles,
        started=progress.started or request.first_attempt or now(),
        backoff=cause.settings.execution.default_backoff,
    )

    async def work() -> Any:
        result = await invoke(call, cause.kwargs(), attempt=attempts.count, started=attempts.started)
        await children.execute_implicitly(call)
        return result

    outcome = await outcome_of(storable(definition, work()), definition, attempts, cause.logger, writes=True)
    response = respond_outcome(cause, definition, outcome)
    after = _after_giving_up(unit, request)
    if after and response.get("error", {}).get("permanent"):
        children.failures.append(f"{definition} gave up, and {after}: {response.pop('error')['message']}")
    return children.complete(response, attempts)


def _after_giving_up(unit: Unit, request: HandlerRequest) -> str:
    """Return what happens after a failure for good that no edit can mend; nothing if the next edit is a new call.

    Setpoint would hold a deletion, although authors give up to let the object go, and would repeat a creation for each
    edit, although that is no creation.
    """
    if request.reason == "Delete":
        return "the object goes nevertheless"
    if request.reason == "Create" and not any("Update" in _REASONS[d.reason] for d in _definitions(unit)):
        return "is not called again for the object"
    return ""


@dataclasses.dataclass
class Change:
    """What happened to an object, in Kopf's terms."""

    cause: Cause
    reason: Reason
    old: Optional[dict[str, Any]]
    new: Optional[dict[str, Any]]
    # Whether Setpoint has lost the state before an update. It says which handler is called, and no more.
    lost: bool = False
    # Whether Kopf has handled the object, so that this process resumes it.
    taken_over: bool = False

    @property
    def is_bookkeeping(self) -> bool:
        """Whether only annotations of Kopf have changed, which Setpoint does not know."""
        return self.reason is Reason.UPDATE and not self.taken_over and self.old is not None and self.old == self.new

    def prematches(self, handler: ChangingHandler) -> bool:
        """Report whether a handler is for the object, whatever its change."""
        if self.lost and handler.value is None:
            handler = dataclasses.replace(handler, field=())
        return matches_states(handler, self.cause.body, [self.new, self.old], self.cause.kwargs)

    def matches(self, handler: ChangingHandler) -> bool:
        """Report whether a handler is for the object and its change."""
        return self._has_reason(handler) and self.matches_child(handler)

    def definition(self, definitions: list[ChangingHandler]) -> Optional[ChangingHandler]:
        """Return the first decorator that is for this change."""
        return next((d for d in definitions if self.matches(d)), None)

    def is_seen(self, definitions: list[ChangingHandler]) -> bool:
        """Report whether Setpoint records this change, although no handler is called for it.

        So it does for an update, whatever a filter says: the next one, for which the filter may say
        otherwise, counts from this one. An object whose creation is filtered is left as it is.
        """
        if self.reason is Reason.UPDATE:
            definitions = [dataclasses.replace(d, field=(), when=None) for d in definitions]
        return any(self.prematches(d) for d in definitions)

    def matches_child(self, handler: ChangingHandler) -> bool:
        """Report whether a sub-handler is for the object and its change. It has no reason of its own."""
        if self.lost and handler.old is None and handler.new is None:
            return self.prematches(handler)
        return _matches_change(handler, self.old, self.new, self.cause.kwargs) and self.prematches(handler)

    def narrowed(self, handler: ChangingHandler) -> Cause:
        """Return the cause with old, new and diff of the handler's field."""
        if not handler.field:
            return self.cause
        extra = {
            **self.cause.extra,
            "old": resolve(self.old, handler.field, None),
            "new": resolve(self.new, handler.field, None),
            "diff": diffs.narrow(self.cause.extra["diff"], handler.field),
        }
        return dataclasses.replace(self.cause, extra=extra)

    def _has_reason(self, handler: ChangingHandler) -> bool:
        if handler.reason is None:
            return self.reason in (Reason.CREATE, Reason.UPDATE)
        if handler.reason is Reason.RESUME and (self.taken_over or (handler.deleted and self.reason is Reason.DELETE)):
            return True
        return handler.reason is self.reason


def _change(operator: Operator, unit: Unit, request: HandlerRequest) -> Change:
    """Return what happened to an object, as the handlers see it."""
    fields = [d.field for d in unit.definitions if d.field]
    former = takeover(operator)
    reason = Reason.UPDATE if request.reason == "Match" else Reason(request.reason.lower())
    new: Optional[dict[str, Any]] = essence(request.object, fields, former.prefixes)
    old = None if request.previous is None else essence(request.previous, fields, former.prefixes)
    taken_over = False
    if reason is Reason.CREATE:
        old = former.handled(request.object)
        taken_over = old is not None
        if taken_over:
            reason = Reason.RESUME if old == new else Reason.UPDATE
    elif reason in (Reason.DELETE, Reason.RESUME) and old is None:
        # Setpoint has only a digest of the state that was handled; it is the object unless that changed.
        old = new
    extra = {"reason": reason, "old": old, "new": new, "diff": diffs.diff(old, new)}
    lost = reason is Reason.UPDATE and old is None
    return Change(operator.cause(request, extra), reason, old, new, lost, taken_over)


def _matches_change(handler: ChangingHandler, old: Any, new: Any, kwargs: Callable[[], Mapping[str, Any]]) -> bool:
    """Report whether a handler with a field is for a change of it."""
    if not handler.field:
        return True
    before, after = resolve(old, handler.field, MISSING), resolve(new, handler.field, MISSING)
    if handler.needs_change and before == after:
        return False
    with naming(handler):
        return (handler.old is None or match_value(handler.old, before, kwargs)) and (
            handler.new is None or match_value(handler.new, after, kwargs)
        )
