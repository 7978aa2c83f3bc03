"""Handlers of the whole operator: startup, login, cleanup and probes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from setpoint._engine.handlers import Activity, ActivityHandler
from setpoint._engine.invocation import Call, invoke
from setpoint._engine.outcome import Attempts, Outcome, outcome_of
from setpoint._engine.registry import Registry
from setpoint._engine.request import now
from setpoint._engine.settings import Settings

logger = logging.getLogger("kopf.activities")


class ActivityError(Exception):
    """A handler of an activity failed for good."""


async def run_activity(
    registry: Registry, activity: Activity, settings: Settings, kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Call the handlers of an activity in their order, then those that failed again; return results by id."""
    results: dict[str, Any] = {}
    started = now()
    pending = registry.activities(activity)
    attempt = 0
    while pending:
        retried: list[tuple[ActivityHandler, float]] = []
        for handler in pending:
            attempts = Attempts(attempt, started, backoff=settings.execution.default_backoff)
            outcome = await _run(handler, settings, kwargs, attempts)
            if outcome.delay is not None:
                retried.append((handler, outcome.delay))
            elif outcome.error is not None:
                message = f"{activity.value} failed: {handler.id} ({handler.where}): {outcome.message}"
                raise ActivityError(message) from outcome.error
            else:
                results[handler.id] = outcome.result
        if retried:
            await asyncio.sleep(min(delay for _, delay in retried))
        pending = [handler for handler, _ in retried]
        attempt += 1
    return results


async def _run(
    handler: ActivityHandler, settings: Settings, kwargs: Mapping[str, Any], attempts: Attempts
) -> Outcome:
    arguments = {"settings": settings, "logger": logger, **kwargs}
    work = invoke(Call(handler, settings), arguments, attempt=attempts.count, started=attempts.started)
    return await outcome_of(work, handler, attempts, logger)
