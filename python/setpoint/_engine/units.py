"""Groups the handlers of a script as Setpoint knows them: controllers, and their handlers by name.

One handler of Setpoint is made of each function, id and class of decorators; stacked decorators of one class are
one handler. Handlers with one selector are one controller. Only Setpoint knows which kinds several selectors
select: for these it requests a controller that is merged of theirs, so that each function is called once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional

from setpoint._engine.errors import DeclarationError
from setpoint._engine.handlers import ResourceHandler
from setpoint._engine.selectors import Selector

MAX_NAME = 63
# Setpoint has at most 32 handlers for one controller; two are ours.
MAX_HANDLERS = 30


@dataclass
class Unit:
    """One handler of Setpoint: the decorators of one class on one function, with one id."""

    name: str
    definitions: list[ResourceHandler]
    # The decorators of this class for the same objects, of any function.
    siblings: list[ResourceHandler] = field(default_factory=list)

    @property
    def first(self) -> ResourceHandler:
        """The decorator that is nearest to the function; the id and the function are those of all."""
        return self.definitions[0]


@dataclass
class Controller:
    """The handlers of one selector, or those of several for the kinds that all of them select."""

    name: str
    selector: Selector
    units: list[Unit] = field(default_factory=list)
    # The controllers that this one is merged of. Its name, for records and finalizers, is that of the first.
    parts: tuple[Controller, ...] = ()

    @property
    def path(self) -> str:
        """What tells the controller apart in URLs."""
        return SEPARATOR.join(part.name for part in self.parts) or self.name

    @property
    def selectors(self) -> list[Selector]:
        """The selectors of the controller, or of its parts."""
        return [part.selector for part in self.parts] or [self.selector]


# Not in names of controllers.
SEPARATOR = "+"


def group(handlers: Iterable[ResourceHandler], operator: str) -> list[Controller]:
    """Return the controllers of handlers, in the order of the decorators."""
    by_selector: dict[Selector, list[ResourceHandler]] = {}
    for handler in handlers:
        assert handler.selector is not None
        by_selector.setdefault(handler.selector, []).append(handler)
    names: set[str] = set()
    controllers = []
    for selector, members in by_selector.items():
        name = _unused(safe_name(f"{operator}-{selector}"), str(selector.declaration()), names)
        controllers.append(Controller(name, selector, _units(members)))
    return controllers


def merge(parts: tuple[Controller, ...], handlers: Iterable[ResourceHandler]) -> Controller:
    """Return a controller with the handlers of several, of those of the script, in the order of the decorators."""
    first, selectors = parts[0], {part.selector for part in parts}
    members = [handler for handler in handlers if handler.selector in selectors]
    names: dict[_Key, str] = {}
    for part in parts:
        for unit in part.units:
            if _key(unit.first) not in names:
                # Handlers keep their names, and with them their records.
                names[_key(unit.first)] = _unused(unit.name, f"{part.name} {unit.name}", set(names.values()))
    return Controller(first.name, first.selector, _units(members, names), parts)


_Key = tuple[type, int, str]


def _key(handler: ResourceHandler) -> _Key:
    """Return what decorators of one handler of Setpoint have in common."""
    return type(handler), id(handler.fn), handler.id


def _units(handlers: list[ResourceHandler], named: Optional[dict[_Key, str]] = None) -> list[Unit]:
    groups: dict[_Key, list[ResourceHandler]] = {}
    for handler in handlers:
        groups.setdefault(_key(handler), []).append(handler)
    if named is None:
        _refuse_twice(list(groups.values()))
        named = _unit_names(groups)
    result = [Unit(named[key], members) for key, members in groups.items()]
    for unit in result:
        unit.siblings = [handler for handler in handlers if type(handler) is type(unit.first)]
    if len(result) > MAX_HANDLERS:
        raise DeclarationError(
            f"{handlers[0].selector}: {len(result)} handlers of one kind; at most {MAX_HANDLERS} are supported"
        )
    return result


def _unit_names(groups: dict[_Key, list[ResourceHandler]]) -> dict[_Key, str]:
    # Handlers with records get their names first: those must not depend on the others.
    ordered = sorted(groups, key=lambda key: not groups[key][0].has_record)
    names: set[str] = set()
    return {key: _unit_name(groups[key][0], names) for key in ordered}


def _refuse_twice(groups: list[list[ResourceHandler]]) -> None:
    """Refuse two functions with one id that would be called for the same reason."""
    seen: dict[tuple[type, str, str], ResourceHandler] = {}
    for members in groups:
        for handler in members:
            other = seen.setdefault((type(handler), handler.id, handler.kind), handler)
            if other.fn is not handler.fn:
                raise DeclarationError(
                    f"two handlers have the id {handler.id!r}: {other.where} and {handler.where}; "
                    "results and records are kept by id, so rename a function or give one of them id="
                )


def _unit_name(handler: ResourceHandler, names: set[str]) -> str:
    name = safe_name(handler.id)
    if name in names:
        name = safe_name(f"{handler.id}-{handler.kind}")
    return _unused(name, f"{handler.id} {handler.kind}", names)


def unique_names(ids: Iterable[str]) -> list[str]:
    """Return names of Kubernetes for ids, one for each."""
    names: set[str] = set()
    return [_unused(safe_name(id), f"{id} {i}", names) for i, id in enumerate(ids)]


def _unused(name: str, source: str, names: set[str]) -> str:
    if name in names:
        name = _hashed(name, source)
    names.add(name)
    return name


def safe_name(text: str) -> str:
    """Return a text as a name of Kubernetes, with a hash if that loses more than the case of separators."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    lossless = re.fullmatch(r"[a-z0-9]+([-_.][a-z0-9]+)*", text) and len(name) <= MAX_NAME
    return name if lossless else _hashed(name, text)


def _hashed(name: str, source: str) -> str:
    digest = hashlib.blake2b(source.encode(), digest_size=4).hexdigest()
    return f"{name[: MAX_NAME - 9].strip('-')}-{digest}".strip("-")
