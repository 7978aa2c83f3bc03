"""The response to a call: what a handler wants written, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Optional

from setpoint._engine.errors import PermanentError
from setpoint._engine.handlers import Handler
from setpoint._engine.invocation import Cause
from setpoint._engine.outcome import Outcome
from setpoint._serve.message import NotJSON, encode

# Setpoint takes 0 for no retry.
_SOON = 0.001


def add_result(cause: Cause, handler: Handler, result: Any) -> None:
    """Put a handler's result into status.<id>: a mapping is merged, another value replaces."""
    if result is None:
        return
    if not isinstance(cause.patch.get("status"), dict):
        cause.patch["status"] = {}
    status = cause.patch["status"]
    if isinstance(result, Mapping):
        known = status.get(handler.id)
        status[handler.id] = {**known, **result} if isinstance(known, Mapping) else dict(result)
    else:
        status[handler.id] = result


async def storable(handler: Handler, work: Awaitable[Any]) -> Any:
    """Return the result of a handler; PermanentError if it has no JSON form: another call would return the like."""
    result = await work
    if result is not None:
        try:
            encode({"status": {handler.id: result}})
        except NotJSON as fault:
            raise PermanentError(f"its result cannot be written: {fault}") from None
    return result


def respond_outcome(cause: Cause, handler: Handler, outcome: Outcome) -> dict[str, Any]:
    """Return the response of a handler that ended: its patch is written also if it failed."""
    add_result(cause, handler, outcome.result)
    response = writes(cause, handler)
    if outcome.unlogged and "error" not in response:
        cause.logger.info(f"{handler} succeeded.")
    if cause.events:
        response["events"] = list(cause.events)
    if "error" in response:
        return response
    if outcome.error is not None:
        response.update(failure(outcome.message, outcome.delay))
    elif outcome.delay is not None:
        response["retryAfterSeconds"] = max(outcome.delay, _SOON)
    return response


def writes(cause: Cause, handler: Handler) -> dict[str, Any]:
    """Return the part of a response that writes; an error if the patch cannot be written."""
    try:
        merged = _without_empty(cause.patch.merged())
        encode(merged)
        _check_metadata(merged)
    except (NotJSON, NotWritable) as fault:
        message = f"its patch cannot be written: {fault}"
        cause.logger.error(f"{handler}: {message}")
        # Another call would do all again, and set the like.
        return failure(message, None)
    except Exception as error:
        message = f"a function of patch.fns failed: {type(error).__name__}: {error}"
        cause.logger.exception(f"{handler}: {message}")
        return failure(message, cause.settings.execution.default_backoff)
    status = merged.pop("status", None)
    return {name: value for name, value in (("patch", merged), ("status", status)) if value}


class NotWritable(ValueError):
    """A patch changes what handlers cannot change. The message names the field."""


def _check_metadata(patch: Mapping[str, Any]) -> None:
    """Refuse what Setpoint would refuse, with the field, where the author looks."""
    for name in ("apiVersion", "kind"):
        if name in patch:
            raise NotWritable(f"patch.{name}: it identifies the object")
    for name, entries in (patch.get("metadata") or {}).items():
        if name not in ("labels", "annotations"):
            raise NotWritable(f"patch.metadata.{name}: only labels and annotations can be patched; use a client for it")
        for key, value in (entries or {}).items():
            if not isinstance(value, (str, type(None))):
                raise NotWritable(f"patch.metadata.{name}.{key}: must be a string or None, is {value!r}")


def failure(message: str, delay: Optional[float]) -> dict[str, Any]:
    """Return the response of a handler that failed, with a retry after a delay, or for good."""
    if delay is None:
        return {"error": {"message": message, "permanent": True}}
    return {"error": {"message": message}, "retryAfterSeconds": max(delay, _SOON)}


def _without_empty(patch: dict[str, Any]) -> dict[str, Any]:
    """Drop the metadata that a script has touched but not set."""
    metadata = patch.get("metadata")
    if not isinstance(metadata, Mapping):
        return patch
    kept = {key: value for key, value in metadata.items() if value != {}}
    return {**patch, "metadata": kept} if kept else {key: value for key, value in patch.items() if key != "metadata"}
