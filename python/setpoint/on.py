"""When a function is called: @on.create("exchangerates.example.com").

The function receives a Call. It returns the objects that shall exist, or nothing. Decorators of one function
may be combined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Optional

from setpoint._decorators import CallFn, Kind, Labels, When, on_call

Decorator = Callable[[CallFn], CallFn]


def create(
    kind: Kind, *, labels: Optional[Labels] = None, when: Optional[When] = None, owns: Collection[str] = (),
    retries: Optional[int] = None, timeout: Optional[float] = None, backoff: Optional[float] = None,
    name: Optional[str] = None,
) -> Decorator[CallFn]:
    """For each object once, also for those older than the operator."""
    return _on(("Create",), locals())


def update(
    kind: Kind, *, labels: Optional[Labels] = None, when: Optional[When] = None, owns: Collection[str] = (),
    retries: Optional[int] = None, timeout: Optional[float] = None, backoff: Optional[float] = None,
    name: Optional[str] = None,
) -> Decorator[CallFn]:
    """When an object differs from what the function has seen; the status does not count."""
    return _on(("Update",), locals())


def change(
    kind: Kind, *fields: str, labels: Optional[Labels] = None, when: Optional[When] = None,
    owns: Collection[str] = (), retries: Optional[int] = None, timeout: Optional[float] = None,
    backoff: Optional[float] = None, name: Optional[str] = None,
) -> Decorator[CallFn]:
    """For each new object, and when one of the fields has changed; without fields, when any has."""
    return _on(("Create", "Update"), locals())


def delete(
    kind: Kind, *, optional: bool = False, labels: Optional[Labels] = None, when: Optional[When] = None,
    owns: Collection[str] = (), retries: Optional[int] = None, timeout: Optional[float] = None,
    backoff: Optional[float] = None, name: Optional[str] = None,
) -> Decorator[CallFn]:
    """When a user deletes an object. The object waits for the function, unless optional."""
    return _on(("Delete",), locals())


def resume(
    kind: Kind, *, labels: Optional[Labels] = None, when: Optional[When] = None, owns: Collection[str] = (),
    retries: Optional[int] = None, timeout: Optional[float] = None, backoff: Optional[float] = None,
    name: Optional[str] = None,
) -> Decorator[CallFn]:
    """For each object that the function has seen before, once after a start."""
    return _on(("Resume",), locals())


def drift(
    kind: Kind, *, owns: Collection[str], labels: Optional[Labels] = None, when: Optional[When] = None,
    retries: Optional[int] = None, timeout: Optional[float] = None, backoff: Optional[float] = None,
    name: Optional[str] = None,
) -> Decorator[CallFn]:
    """When another client changes or deletes an object that this one owns."""
    return _on(("Drift",), locals())


def event(
    kind: Kind, *, labels: Optional[Labels] = None, when: Optional[When] = None, name: Optional[str] = None
) -> Decorator[CallFn]:
    """For every change, also of the status, and for the end of an object. Not retried."""
    return _on(("Event",), locals())


def _on(reasons: tuple[str, ...], arguments: dict[str, Any]) -> Decorator[CallFn]:
    return on_call(arguments.pop("kind"), reasons=reasons, **arguments)
