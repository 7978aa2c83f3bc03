"""What Setpoint sends with a call of a handler."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional


# The response that leaves an object alone.
NOT_APPLICABLE: dict[str, Any] = {"applicable": False}
# The response of a call that no function was called for.
NO_EFFECT: dict[str, Any] = {"sideEffects": False}


# The annotations in which Setpoint keeps what its handlers have seen, one for each controller.
_RECORD = "setpoint.dev/handled-by-"


@dataclass(frozen=True)
class HandlerRequest:
    """A request to a handler; see docs/handlers.md."""

    reason: str
    object: Mapping[str, Any]
    controller: Mapping[str, Any] = field(default_factory=dict)
    handler: str = ""
    previous: Optional[Mapping[str, Any]] = None
    changes: Sequence[Mapping[str, Any]] = ()
    owned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    attempt: int = 0
    first_attempt: Optional[datetime.datetime] = None
    event: Optional[str] = None
    daemon: Optional[str] = None
    progress: Optional[Mapping[str, Any]] = None
    deleted: bool = False
    dry_run: bool = False
    # The path of the controller: its name, unless it is merged.
    path: str = ""


def parse_request(data: Mapping[str, Any], path: str) -> HandlerRequest:
    """Read a request; ValueError if it is none."""
    if not isinstance(data, Mapping) or not isinstance(data.get("object"), Mapping) or "reason" not in data:
        raise ValueError("not a request of Setpoint: object and reason are required")
    return HandlerRequest(
        reason=data["reason"],
        object=without_record(data["object"]),
        controller=data.get("controller") or {},
        handler=data.get("handler") or "",
        previous=data.get("previousState"),
        changes=data.get("changes") or (),
        owned=data.get("owned") or {},
        attempt=data.get("attempt") or 0,
        first_attempt=parse_time(data.get("firstAttempt")),
        event=data.get("event"),
        daemon=data.get("daemon"),
        progress=data.get("progress"),
        deleted=bool(data.get("deleted")),
        dry_run=bool(data.get("dryRun")),
        path=path,
    )


def without_record(obj: Any) -> Any:
    """Remove the record from an object, in place: scripts that copy annotations would copy it."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    for key in [key for key in annotations if key.startswith(_RECORD)]:
        del annotations[key]
    return obj


def parse_time(text: Optional[str]) -> Optional[datetime.datetime]:
    """Read an RFC 3339 time. Python before 3.11 reads neither Z nor nine digits."""
    if not text:
        return None
    seconds, dot, rest = text.partition(".")
    if dot:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        text = f"{seconds}.{rest[:digits][:6].ljust(6, '0')}{rest[digits:]}"
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def now() -> datetime.datetime:
    """Return the time, with its zone."""
    return datetime.datetime.now(datetime.timezone.utc)
