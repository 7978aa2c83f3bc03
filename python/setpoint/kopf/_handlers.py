"""What only decorators of Kopf declare."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional, Union

from setpoint._engine.filters import ValueFilter
from setpoint._engine.handlers import ResourceHandler


class Reason(str, enum.Enum):
    """Why a changing handler is called."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RESUME = "resume"
    NOOP = "noop"
    FREE = "free"
    GONE = "gone"

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False)
class ChangingHandler(ResourceHandler):
    """A handler of creations, updates, deletions and resumptions. Without a reason: of its field."""

    reason: Optional[Reason] = None
    old: ValueFilter = None
    new: ValueFilter = None
    # Whether the field must differ: so for update, field, and their sub-handlers.
    needs_change: bool = False
    optional: bool = False
    deleted: bool = False

    @property
    def kind(self) -> str:
        return self.reason.value if self.reason else super().kind

    @property
    def has_record(self) -> bool:
        return True

    @property
    def is_called_for_its_field(self) -> bool:
        return self.reason is Reason.UPDATE


@dataclass(frozen=True, eq=False)
class WatchingHandler(ResourceHandler):
    """A handler of raw events."""


@dataclass(frozen=True, eq=False)
class TimerHandler(ResourceHandler):
    """A handler that is called repeatedly."""

    interval: Optional[float] = None
    initial_delay: Union[float, Callable[..., float], None] = None
    idle: Optional[float] = None
    sharp: bool = False

    @property
    def title(self) -> str:
        return "Timer"
