"""The handlers of an operator, in the order of their decorators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional, TypeVar

from setpoint._engine.handlers import Activity, ActivityHandler, Handler, ResourceHandler
from setpoint._engine.style import Style

HandlerT = TypeVar("HandlerT", bound=Handler)


class Registry:
    """The handlers of an operator, and their style."""

    style: type[Style] = Style

    def __init__(self) -> None:
        self._activities: list[ActivityHandler] = []
        self._handlers: list[ResourceHandler] = []

    def append(self, handler: Handler) -> None:
        """Add a handler."""
        if isinstance(handler, ActivityHandler):
            self._activities.append(handler)
        elif isinstance(handler, ResourceHandler):
            self._handlers.append(handler)
        else:
            raise TypeError(f"{handler!r} is not a handler of activities or of objects")

    def activities(self, activity: Activity) -> list[ActivityHandler]:
        """Return the handlers of one activity."""
        return [handler for handler in self._activities if handler.activity is activity]

    def handlers(self, kind: type[HandlerT]) -> list[HandlerT]:
        """Return the handlers of objects of one class, such as ChangingHandler."""
        return [handler for handler in self._handlers if isinstance(handler, kind)]

    def all_handlers(self) -> Iterable[ResourceHandler]:
        """Return the handlers of objects."""
        return tuple(self._handlers)

    def __bool__(self) -> bool:
        return bool(self._handlers or self._activities)


_default: Optional[Registry] = None


def get_default_registry() -> Registry:
    """Return the registry of decorators without registry=."""
    global _default
    if _default is None:
        _default = Registry()
    return _default


def set_default_registry(registry: Registry) -> None:
    """Set the registry of decorators without registry=."""
    global _default
    _default = registry
