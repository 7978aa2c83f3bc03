"""What a style of handlers, such as that of Kopf, adds to the operator of a script that imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from setpoint._engine import daemons, forgetting
from setpoint._engine.handlers import DaemonHandler, ResourceHandler
from setpoint._engine.request import HandlerRequest
from setpoint._engine.settings import Settings
from setpoint._engine.units import Controller, Unit

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator


class Kind(NamedTuple):
    """How handlers of one class are declared and called."""

    declare: Callable[[Operator, Unit], dict[str, Any]]
    handle: Callable[[Operator, Unit, HandlerRequest], Awaitable[dict[str, Any]]]


class Style:
    """The handlers that all styles have. Those of a script are of the style that was imported last."""

    kinds: Mapping[type[ResourceHandler], Kind] = {
        DaemonHandler: Kind(daemons.declare, daemons.handle),
        forgetting.ForgettingHandler: Kind(forgetting.declare, forgetting.handle),
    }

    def new_settings(self) -> Settings:
        """Return the default settings."""
        return Settings()

    def begin(self, operator: Operator) -> None:
        """Take the settings, before the operator declares its handlers."""

    def units(self, controller: Controller) -> list[Unit]:
        """Return handlers to call after those of the script."""
        return []

    def spec(self, controllers: list[Controller], controller: Controller) -> dict[str, Any]:
        """Return what a controller declares besides its handlers."""
        return {}

    def responded(self, unit: Unit, path: str, request: HandlerRequest, response: Mapping[str, Any]) -> None:
        """Take the response of a handler."""
