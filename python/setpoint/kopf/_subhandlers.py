"""Sub-handlers: parts of a handler, each with retries of its own, whose success is recorded.

The function of the parent is called again until all parts are done. What is done is in the field
`progress` of the response, which Setpoint stores and sends back with the next call.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import math
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional

from setpoint._engine.handlers import handler_id
from setpoint._engine.invocation import Call, current_call, invoke
from setpoint._engine.outcome import Attempts, ChildrenPending, Outcome, outcome_of
from setpoint._engine.patch import merge, plain
from setpoint._engine.request import now, parse_time
from setpoint._engine.response import add_result, storable
from setpoint._serve.message import encode
from setpoint.kopf._essence import essence
from setpoint.kopf._handlers import ChangingHandler

if TYPE_CHECKING:
    from setpoint.kopf._changing import Change

# After this many seconds, the parts that are done are stored before the next one starts.
STORE_AFTER = 2.0
# Setpoint stores at most 8 KiB.
MAX_PROGRESS = 8000
# The length of a digest of an id.
_DIGEST = 8


class Progress:
    """Which parts are done, and which are to be retried when."""

    def __init__(self, stored: Optional[Mapping[str, Any]], state: str = "") -> None:
        stored = stored or {}
        # The digest of the object, and whether another client has changed it since the last call.
        self.state = state
        self.edited = stored.get("state", state) != state
        self.cycles: int = stored.get("cycles", 0)
        self.started = parse_time(stored.get("started"))
        self.done: list[str] = list(stored.get("done", []))
        digests = stored.get("digests", "")
        self._digests = {digests[i : i + _DIGEST] for i in range(0, len(digests), _DIGEST)}
        self.pending: dict[str, dict[str, Any]] = {key: dict(value) for key, value in stored.get("pending", {}).items()}

    @property
    def begun(self) -> bool:
        """Whether there is progress to store."""
        return bool(self.done or self._digests or self.pending)

    def is_done(self, id: str) -> bool:
        """Report whether a part is done."""
        return id in self.done or _digest(id) in self._digests

    def attempts(self, id: str, backoff: float) -> Attempts:
        """Return how often a part has failed."""
        state = self.pending.get(id, {})
        started = parse_time(state.get("started")) or now()
        return Attempts(state.get("retries", 0), started, backoff=backoff, early=self.delay(id) > 0)

    def delay(self, id: str) -> float:
        """Return in how many seconds a part may be called."""
        until = parse_time(self.pending.get(id, {}).get("delayed"))
        return max((until - now()).total_seconds(), 0) if until else 0

    def finish(self, id: str) -> None:
        """Record that a part is done."""
        self.pending.pop(id, None)
        self.done.append(id)

    def retry(self, id: str, attempts: Attempts, outcome: Outcome) -> None:
        """Record that a part has failed and is to be retried. A call before its time uses up no retry."""
        if attempts.early:
            return
        until = now() + datetime.timedelta(seconds=outcome.delay or 0)
        self.pending[id] = {
            "retries": attempts.count + 1,
            "started": (attempts.started or now()).isoformat(),
            "delayed": until.isoformat(),
        }

    def stored(self) -> dict[str, Any]:
        """Return the progress as Setpoint stores it, which has room for about a thousand parts.

        Ids that need too much room become digests. After that, the counts of retries go: they matter less
        than that no part is called again that is done.
        """
        started = (self.started or now()).isoformat()
        value = {
            "cycles": self.cycles, "started": started, "state": self.state, "done": self.done, "pending": self.pending,
        }
        if self._digests or len(encode(value)) > MAX_PROGRESS:
            self._digests.update(map(_digest, self.done))
            value.update(done=[], digests="".join(sorted(self._digests)))
        if len(encode(value)) > MAX_PROGRESS:
            value["pending"] = {}
        return value


class Children:
    """The parts of one handler, in one call."""

    def __init__(
        self, parent: ChangingHandler, change: Change, progress: Progress, deadline: Optional[float] = None
    ) -> None:
        self.parent = parent
        self.progress = progress
        self.failures: list[str] = []
        self._change = change
        self._registered: list[ChangingHandler] = []
        self._executed = False
        # At least one part is called in each call, however long the parent has taken.
        self._called = False
        self._deadline = deadline if deadline is not None else time.monotonic() + STORE_AFTER

    def add(self, handler: ChangingHandler) -> None:
        """Add a part; one that the function registers again replaces the former."""
        self._registered = [known for known in self._registered if known.id != handler.id]
        self._registered.append(handler)

    async def execute_implicitly(self, call: Call) -> None:
        """Execute what the function has registered, unless it has done that itself."""
        if not self._executed:
            await self.execute(call, self._registered)

    async def execute_registered(self, call: Call) -> None:
        """Execute what the function has registered so far."""
        self._executed = True
        await self.execute(call, self._registered)

    async def execute(self, call: Call, handlers: Iterable[ChangingHandler]) -> None:
        """Call the parts that are not done; ChildrenPending if some still are not."""
        delays: list[float] = []
        errors: list[str] = []
        for handler in handlers:
            if not self._change.matches_child(handler) or self.progress.is_done(handler.id):
                continue
            delay = self.progress.delay(handler.id)
            if (delay == 0 or self.progress.edited) and (not self._called or time.monotonic() < self._deadline):
                self._called = True
                outcome = await self._call(call, handler)
                if not outcome.retried:
                    continue
                # What an edit has brought forward keeps its time.
                delay = min(delay or math.inf, outcome.delay or 0)
                if outcome.message:
                    errors.append(f"{handler.id}: {outcome.message}")
            delays.append(delay)
        if delays:
            raise ChildrenPending("; ".join(errors), delay=min(delays))

    def complete(self, response: dict[str, Any], attempts: Attempts) -> dict[str, Any]:
        """Add the progress to a response after which the parent is called again."""
        repeated = "retryAfterSeconds" in response
        if repeated and self.progress.begun:
            self.progress.started = attempts.started
            if "error" not in response:
                # Setpoint counts the errors in a row.
                self.progress.cycles = attempts.count + 1
            self.progress.state = state_digest(self._change.new, response.get("patch"))
            response["progress"] = self.progress.stored()
        if self.failures:
            response.setdefault("events", []).extend(
                {"type": "Warning", "reason": "HandlerFailed", "message": message} for message in self.failures
            )
        return response

    async def _call(self, call: Call, handler: ChangingHandler) -> Outcome:
        assert call.cause is not None
        cause = self._change.narrowed(handler)
        attempts = self.progress.attempts(handler.id, call.settings.execution.default_backoff)
        inner = Children(handler, self._change, self.progress, self._deadline)
        child = Call(handler, call.settings, cause, inner)

        async def work() -> Any:
            result = await invoke(child, cause.kwargs(), attempt=attempts.count, started=attempts.started)
            await inner.execute_implicitly(child)
            return result

        outcome = await outcome_of(storable(handler, work()), handler, attempts, cause.logger)
        self.failures += inner.failures
        if outcome.retried:
            self.progress.retry(handler.id, attempts, outcome)
            return outcome
        self.progress.finish(handler.id)
        if outcome.error is not None:
            self.failures.append(outcome.message)
        add_result(cause, handler, outcome.result)
        return outcome


def current_parent() -> ChangingHandler:
    """Return the handler that is running; TypeError if it cannot have parts."""
    call = current_call()
    if call is None or call.parts is None:
        raise TypeError("sub-handlers are for handlers of creations, updates, deletions and resumptions, while they run")
    assert isinstance(call.handler, ChangingHandler)
    return call.handler


def add(handler: ChangingHandler) -> None:
    """Add a part to the handler that is running."""
    call = current_call()
    assert call is not None and call.parts is not None
    call.parts.add(handler)


async def execute(
    *, fns: Any = None, handlers: Optional[Iterable[ChangingHandler]] = None, registry: Any = None,
    lifecycle: Any = None, cause: Any = None,
) -> None:
    """Call parts of the handler that is running: functions by id or in a list, or those registered."""
    if sum(argument is not None for argument in (fns, handlers, registry)) > 1:
        raise TypeError("only one of fns=, handlers= and registry= can be given")
    parent = current_parent()
    call = current_call()
    assert call is not None and call.parts is not None
    if fns is not None:
        await call.parts.execute(call, _parts(parent, fns))
    elif handlers is not None or registry is not None:
        await call.parts.execute(call, handlers if handlers is not None else registry.handlers(ChangingHandler))
    else:
        await call.parts.execute_registered(call)


def _parts(parent: ChangingHandler, fns: Any) -> Collection[ChangingHandler]:
    if isinstance(fns, Mapping):
        named = [(fn, id) for id, fn in fns.items()]
    elif isinstance(fns, Iterable) and not isinstance(fns, (str, bytes)):
        named = [(fn, None) for fn in fns]
    else:
        raise ValueError(f"fns= must be a mapping of functions by id, or a list of functions; is {fns!r}")
    return [ChangingHandler(id=handler_id(fn, id, prefix=parent.id), fn=fn) for fn, id in named]


def state_digest(state: Optional[Mapping[str, Any]], patch: Optional[Mapping[str, Any]] = None) -> str:
    """Return a digest of what users change of an object, after a patch."""
    return _digest(json.dumps(essence(merge(plain(state or {}), patch or {})), sort_keys=True))


def _digest(id: str) -> str:
    return base64.urlsafe_b64encode(hashlib.blake2b(id.encode(), digest_size=6).digest()).decode()
