"""The handlers of Kopf, and the registry of scripts that import it."""

from __future__ import annotations

from setpoint._engine.registry import Registry, get_default_registry
from setpoint._engine.style import Kind
from setpoint.kopf import _changing, _takeover, _timers, _watching
from setpoint.kopf._handlers import ChangingHandler, TimerHandler, WatchingHandler


class KopfStyle(_takeover.Takeover):
    """All handlers: a script may have decorators of both styles."""

    kinds = {
        **_takeover.Takeover.kinds,
        ChangingHandler: Kind(_changing.declare, _changing.handle),
        WatchingHandler: Kind(_watching.declare, _watching.handle),
        TimerHandler: Kind(_timers.declare, _timers.handle),
        _takeover.TakeoverHandler: Kind(_takeover.declare, _takeover.handle),
    }


class OperatorRegistry(Registry):
    """The handlers of an operator."""

    style = KopfStyle


class SmartOperatorRegistry(OperatorRegistry):
    """The same: the implicit login needs no handlers here."""


# This module is imported with the script's `import kopf`, which may come after other decorators.
get_default_registry().style = KopfStyle
