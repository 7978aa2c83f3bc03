"""The trace that a call belongs to, for the author's own spans."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping

_HEADERS = ("traceparent", "tracestate")

# Each request is served in a context of its own, which threads of handlers copy.
_current: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar("setpoint_trace", default={})


def trace_context() -> dict[str, str]:
    """Return traceparent and tracestate of the running call, as OpenTelemetry extracts them; {} without traces."""
    return dict(_current.get())


def enter(headers: Mapping[str, str]) -> None:
    """Set the trace of the current context from the headers of its request."""
    _current.set({name: headers[name] for name in _HEADERS if headers.get(name)})
