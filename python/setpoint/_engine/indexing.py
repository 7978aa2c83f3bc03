"""Indices: Setpoint sends all objects of a kind, then their changes, before handlers are called."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from setpoint._engine.errors import ErrorsMode
from setpoint._engine.handlers import IndexHandler
from setpoint._engine.index import Index, ObjectKey, discard, put
from setpoint._engine.invocation import Call, Cause, invoke
from setpoint._engine.logs import TerseObjectLogger
from setpoint._engine.outcome import Attempts, Outcome, outcome_of
from setpoint._engine.request import HandlerRequest, now, without_record
from setpoint._engine.selection import matches
from setpoint._engine.units import Controller, Unit

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator


@dataclass
class Failure:
    """The errors of an index function about one object, since its last success."""

    attempts: Attempts
    # When the function is called again; None for never.
    retry: Optional[asyncio.TimerHandle] = None


class Indexer:
    """Keeps the indices of an operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        # The objects of each kind of a controller, and those of a list that is not complete yet.
        self._known: dict[tuple[str, str, str], set[ObjectKey]] = {}
        self._listed: dict[tuple[str, str, str], set[ObjectKey]] = {}
        self._failures: dict[tuple[str, ObjectKey], Failure] = {}

    def declare(self, handlers: Iterable[IndexHandler]) -> None:
        """Make the indices. Handlers with one id share one."""
        for handler in handlers:
            own = handler.index if handler.index is not None else Index()
            self._operator.indices.setdefault(handler.id, own)

    async def feed(self, controller: Controller, data: Mapping[str, Any]) -> None:
        """Take new, changed and deleted objects of one kind."""
        units = [unit for unit in controller.units if isinstance(unit.first, IndexHandler)]
        kind = (controller.path, data["apiVersion"], data["kind"])
        known = self._known.setdefault(kind, set())
        if data.get("first"):
            self._listed[kind] = set()
        for obj in data.get("objects") or ():
            key = _key(obj["metadata"])
            known.add(key)
            self._listed.get(kind, known).add(key)
            await self._index(units, key, HandlerRequest("Index", without_record(obj), data.get("controller") or {}, path=controller.path))
        for name in data.get("deleted") or ():
            self._drop(units, known, _key(name))
        if data.get("complete") and kind in self._listed:
            for key in known - self._listed.pop(kind):
                self._drop(units, known, key)

    def close(self) -> None:
        """Call no function again."""
        for failure in self._failures.values():
            if failure.retry is not None:
                failure.retry.cancel()

    async def _index(self, units: list[Unit], key: ObjectKey, request: HandlerRequest) -> None:
        for unit in units:
            cause = self._operator.cause(request, {})
            try:
                handler = next((d for d in unit.definitions if matches(d, request.object, cause.kwargs)), None)
            except Exception as error:
                cause.logger.exception(f"{unit.first}: a filter failed, so the object is not indexed: {error}")
                handler = None
            if handler is None:
                discard(self._operator.indices[unit.first.id], key)
                self._forget(unit.first.id, key)
            else:
                await self._call(unit, handler, key, request, cause)

    async def _call(self, unit: Unit, handler: Any, key: ObjectKey, request: HandlerRequest, cause: Cause) -> None:
        failure = self._failures.get((handler.id, key))
        if failure is not None and failure.retry is None:
            return  # It has failed for good.
        attempts = failure.attempts if failure else self._first_attempt()
        call = Call(handler, cause.settings, cause)
        work = invoke(call, cause.kwargs(), attempt=attempts.count, started=attempts.started)
        outcome = await outcome_of(work, handler, attempts, TerseObjectLogger(body=cause.body, settings=cause.settings))
        self._forget(handler.id, key)
        if outcome.error is not None:
            discard(self._operator.indices[handler.id], key)
            self._failures[handler.id, key] = self._failure(unit, key, request, attempts, outcome)
        elif outcome.result is not None:
            put(self._operator.indices[handler.id], key, outcome.result)

    def _first_attempt(self) -> Attempts:
        # Kopf ignores errors by default: what the index has of the object stays.
        return Attempts(0, now(), ErrorsMode.IGNORED, self._operator.settings.execution.default_backoff)

    def _failure(
        self, unit: Unit, key: ObjectKey, request: HandlerRequest, attempts: Attempts, outcome: Outcome
    ) -> Failure:
        failed = Failure(Attempts(attempts.count + 1, attempts.started, attempts.errors, attempts.backoff))
        if outcome.delay is not None:
            loop = asyncio.get_running_loop()
            again = lambda: loop.create_task(self._index([unit], key, request))  # noqa: E731
            failed.retry = loop.call_later(outcome.delay, again)
        return failed

    def _forget(self, id: str, key: ObjectKey) -> None:
        failure = self._failures.pop((id, key), None)
        if failure is not None and failure.retry is not None:
            failure.retry.cancel()

    def _drop(self, units: list[Unit], known: set[ObjectKey], key: ObjectKey) -> None:
        known.discard(key)
        for unit in units:
            discard(self._operator.indices[unit.first.id], key)
            self._forget(unit.first.id, key)


def _key(metadata: Mapping[str, Any]) -> ObjectKey:
    return (metadata.get("namespace") or None, metadata.get("name"), metadata.get("uid"))
