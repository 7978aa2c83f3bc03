"""In which order handlers run, under Kopf. Here they run in the order of the script, one after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Callable, Optional

from setpoint._engine.handlers import Handler

LifeCycleFn = Callable[..., Sequence[Handler]]


def all_at_once(handlers: Sequence[Handler], **_: Any) -> Sequence[Handler]:
    """Return all handlers."""
    return handlers


def one_by_one(handlers: Sequence[Handler], **_: Any) -> Sequence[Handler]:
    """Return the first handler."""
    return handlers[:1]


def randomized(handlers: Sequence[Handler], **_: Any) -> Sequence[Handler]:
    """Return a random handler."""
    return random.sample(handlers, min(1, len(handlers)))


def shuffled(handlers: Sequence[Handler], **_: Any) -> Sequence[Handler]:
    """Return all handlers in a random order."""
    return random.sample(handlers, len(handlers))


def asap(handlers: Sequence[Handler], *, state: Any = None, **_: Any) -> Sequence[Handler]:
    """Return the handler that has failed least."""
    retries = (lambda handler: state[handler.id].retries) if state is not None else (lambda handler: 0)
    return sorted(handlers, key=retries)[:1]


_default: Optional[LifeCycleFn] = None


def get_default_lifecycle() -> LifeCycleFn:
    """Return the lifecycle of set_default_lifecycle."""
    if _default is not None:
        return _default
    return asap


def set_default_lifecycle(lifecycle: Optional[LifeCycleFn]) -> None:
    """Accept a lifecycle; it has no effect, because each handler has a record of its own."""
    global _default
    _default = lifecycle
