"""Groups the handlers of a script as Setpoint knows them: controllers, and their handlers by name.

One handler of Setpoint is made of each function, id and class of decorators; stacked decorators of one class are
one handler. Handlers with one selector are one controller.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional

from setpoint.kopf._handlers import ChangingHandler, Reason, ResourceHandler
from setpoint.kopf._registry import DeclarationError
from setpoint.kopf._selectors import Selector

MAX_NAME = 63
# Setpoint has at most 32 handlers for one controller; two are ours.
MAX_HANDLERS = 30


@dataclass
class Unit:
    """One handler of Setpoint: the decorators of one class on one function, with one id."""

    name: str
    definitions: list[ResourceHandler]
    # The decorators of all handlers of changes of the same objects, of any function. An object for which
    # one of them is, is handled: what the others see first later is an update, and no creation.
    siblings: list[ChangingHandler] = field(default_factory=list)

    @property
    def first(self) -> ResourceHandler:
        """The decorator that is nearest to the function; the id and the function are those of all."""
        return self.definitions[0]


@dataclass
class Controller:
    """The handlers of one selector."""

    name: str
    selector: Selector
    units: list[Unit] = field(default_factory=list)


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


def _units(handlers: list[ResourceHandler]) -> list[Unit]:
    groups: dict[tuple[type, int, str], list[ResourceHandler]] = {}
    for handler in handlers:
        groups.setdefault((type(handler), id(handler.fn), handler.id), []).append(handler)
    _refuse_twice(list(groups.values()))
    # Handlers with records get their names first: those must not depend on the others.
    ordered = sorted(groups.values(), key=lambda members: not isinstance(members[0], ChangingHandler))
    names: set[str] = set()
    units = {id(members): Unit(_unit_name(members[0], names), members) for members in ordered}
    result = [units[id(members)] for members in groups.values()]
    siblings = [handler for handler in handlers if isinstance(handler, ChangingHandler)]
    for unit in result:
        unit.siblings = siblings
    if len(result) > MAX_HANDLERS:
        raise DeclarationError(
            f"{handlers[0].selector}: {len(result)} handlers of one kind; at most {MAX_HANDLERS} are supported"
        )
    return result


def _refuse_twice(groups: list[list[ResourceHandler]]) -> None:
    """Refuse two functions with one id that would be called for the same reason."""
    seen: dict[tuple[type, str, Optional[Reason]], ResourceHandler] = {}
    for members in groups:
        for handler in members:
            reason = handler.reason if isinstance(handler, ChangingHandler) else None
            other = seen.setdefault((type(handler), handler.id, reason), handler)
            if other.fn is not handler.fn:
                raise DeclarationError(
                    f"two handlers have the id {handler.id!r}: {other.where} and {handler.where}; "
                    "results and records are kept by id, so rename a function or give one of them id="
                )


def _unit_name(handler: ResourceHandler, names: set[str]) -> str:
    kind = type(handler).__name__.replace("Handler", "").lower()
    reason = handler.reason.value if isinstance(handler, ChangingHandler) and handler.reason else kind
    name = safe_name(handler.id)
    if name in names:
        name = safe_name(f"{handler.id}-{reason}")
    return _unused(name, f"{handler.id} {reason}", names)


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
