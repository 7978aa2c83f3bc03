"""The private modules of Kopf that scripts import, mostly for types.

They hold no code: each name is that of the public package, or of what it is made of. Modules of Kopf's own
engine, such as its clients and queues, do not exist here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

_MODULES = {
    "_cogs.configs": "configuration diffbase progress",
    "_cogs.helpers": "typedefs versions",
    "_cogs.structs": "bodies credentials dicts diffs ephemera ids patches references reviews",
    "_core.actions": "execution lifecycles loggers",
    "_core.engines": "admission indexing posting",
    "_core.intents": "callbacks causes filters handlers piggybacking registries stoppers",
    "_core.reactor": "running subhandling",
    "_kits": "hierarchies runner webhooks",
}

# Where names are looked for that the public package does not have.
_SOURCES = (
    *(f"_engine.{module}" for module in ("bodies", "diffs", "dicts", "filters", "handlers", "registry", "selectors")),
    *(f"kopf.{module}" for module in ("_handlers", "_style", "lifecycles", "testing")),
)

_ALIASES: dict[str, Any] = {
    "AnyMemo": Any,
    "Namespace": Optional[str],
    "NamespaceName": str,
    "version": importlib.import_module("setpoint.kopf").__version__,
    **dict.fromkeys(
        ("ActivityFn", "IndexingFn", "WatchingFn", "ChangingFn", "SpawningFn", "DaemonFn", "TimerFn", "MetaFilterFn", "WhenFilterFn"),
        Callable[..., Any],
    ),
}


class PrivateModule(ModuleType):
    """A module or a package of Kopf whose names are found elsewhere."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            if name in _ALIASES:
                return _ALIASES[name]
            for source in ("kopf", *_SOURCES):
                found = getattr(importlib.import_module(f"setpoint.{source}"), name, None)
                if found is not None and not isinstance(found, ModuleType):
                    return found
        raise AttributeError(f"{self.__name__} has no {name} here: Setpoint has the public names of Kopf and its types, not its engine")


def register() -> None:
    """Make the modules importable, and attributes of the packages around them."""
    for package, modules in _MODULES.items():
        for path in (package, *(f"{package}.{module}" for module in modules.split())):
            parent = "kopf"
            for name in path.split("."):
                module = sys.modules.setdefault(f"{parent}.{name}", PrivateModule(f"{parent}.{name}"))
                setattr(sys.modules[parent], name, module)
                parent = module.__name__
