"""event, info, warn and exception: events of objects.

Events of the object of the call go with its response. Others, and those of daemons, go with the
stream of notifications.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Optional

from setpoint._engine.bodies import build_object_reference
from setpoint._engine.invocation import Cause, current_call
from setpoint._engine.objects import walk
from setpoint._engine.settings import Settings, PostingSettings
from setpoint._serve.notifications import Notifications

logger = logging.getLogger("kopf")

# Longer messages are cut in the middle, as the API server limits them.
MAX_MESSAGE = 1024
_CUT = "..."
MAX_REASON = 128
# A response has at most 100; some are those of sub-handlers that failed. More are sent at once.
MAX_EVENTS = 50


def event(objs: Any, *, type: str, reason: str, message: str = "") -> None:
    """Send an event of an object, or of each of several."""
    _send(objs, type, reason, message, level=None)


def info(objs: Any, *, reason: str, message: str = "") -> None:
    """Send a normal event."""
    _send(objs, "Normal", reason, message, level=logging.INFO)


def warn(objs: Any, *, reason: str, message: str = "") -> None:
    """Send a warning."""
    _send(objs, "Warning", reason, message, level=logging.WARNING)


def exception(objs: Any, *, reason: str = "", message: str = "", exc: Optional[BaseException] = None) -> None:
    """Send a warning with an exception, by default the one that is being handled."""
    exc = exc if exc is not None else sys.exc_info()[1]
    text = " ".join(part for part in (message, str(exc) if exc is not None else "") if part)
    _send(objs, "Error", reason or type(exc).__name__, text, level=logging.ERROR)


class Sink:
    """Where the events of one operator go that do not go with a response."""

    def __init__(self, notifications: Notifications, settings: Settings) -> None:
        self.notifications = notifications
        self.settings = settings
        self._logs = _EventsOfLogs()

    def open(self) -> None:
        """Send the events of threads and tasks, too, that handlers have started."""
        _sinks.append(self)
        logging.getLogger("kopf.objects").addHandler(self._logs)

    def close(self) -> None:
        _sinks.remove(self)
        logging.getLogger("kopf.objects").removeHandler(self._logs)


# Several operators may be embedded in one process; the newest has the events without a call.
_sinks: list[Sink] = []


def _send(objs: Any, type: str, reason: str, message: str, level: Optional[int]) -> None:
    call = current_call()
    settings = call.settings if call is not None else _newest_sink().settings
    if not _is_posted(settings.posting, level):
        return
    for obj in walk(objs):
        _send_one(call.cause if call is not None else None, build_object_reference(_mapping(obj)), type, reason, message)


def _send_one(cause: Optional[Cause], reference: Mapping[str, Any], type: str, reason: str, message: str) -> None:
    if reference.get("apiVersion") == "v1" and reference.get("kind") == "Event":
        return  # A handler of events would never come to an end.
    sent = {"type": "Normal" if type == "Normal" else "Warning", "reason": _word(reason), "message": _shortened(str(message))}
    if not (reference.get("apiVersion") and reference.get("kind") and reference.get("name")):
        logger.warning("event %s is not sent: its object has no apiVersion, kind or name: %s", reason, dict(reference))
        return
    if cause is not None and _has_room(cause) and reference.get("uid") == cause.body.meta.uid:
        assert cause.events is not None
        cause.events.append(sent)
    else:
        _newest_sink().notifications.send({**reference, "event": sent})


def _has_room(cause: Cause) -> bool:
    return cause.events is not None and len(cause.events) < MAX_EVENTS


def _is_posted(posting: PostingSettings, level: Optional[int]) -> bool:
    return posting.enabled and (level is None or posting.level <= level)


def _newest_sink() -> Sink:
    if not _sinks:
        raise LookupError("events need a running operator: call this in a handler, or after the startup handlers")
    return _sinks[-1]


def _mapping(obj: Any) -> Mapping[str, Any]:
    if not isinstance(obj, Mapping):
        raise TypeError(f"an event is for an object, such as body, or for a list of them; is {obj!r}")
    return obj


def _word(reason: str) -> str:
    """Return a reason as Setpoint and Kubernetes have it: a word in CamelCase."""
    reason = str(reason)
    if re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", reason):
        return reason[:MAX_REASON]
    words = re.findall(r"[A-Za-z0-9_]+", reason)
    word = "".join(one[:1].upper() + one[1:] for one in words).lstrip("0123456789_")
    return word[:MAX_REASON] or "Event"


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE:
        return message
    half = (MAX_MESSAGE - len(_CUT)) // 2
    return message[:half] + _CUT + message[-half:]


class _EventsOfLogs(logging.Handler):
    """Sends lines of the loggers of objects as events, if settings.posting.loggers is set."""

    def emit(self, record: logging.LogRecord) -> None:
        settings, reference = getattr(record, "settings", None), getattr(record, "k8s_ref", None)
        if settings is None or not reference or getattr(record, "k8s_skip", False):
            return
        if not settings.posting.loggers or not _is_posted(settings.posting, record.levelno):
            return
        call = current_call()
        kind = "Normal" if record.levelno <= logging.INFO else "Warning"
        try:
            _send_one(call.cause if call is not None else None, reference, kind, "Logging", self.format(record))
        except Exception:
            self.handleError(record)
