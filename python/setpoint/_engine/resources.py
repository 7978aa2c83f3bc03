"""The kind of the object of a request."""

from __future__ import annotations

import functools
from typing import Any

from setpoint._engine.request import HandlerRequest
from setpoint._engine.selectors import Resource


def resource_of(request: HandlerRequest) -> Resource:
    """Return the kind of a request's object. Its plural is that of the controller's resources."""
    api_version = request.object.get("apiVersion", "")
    kind = request.object.get("kind", "")
    spec = request.controller.get("spec") or {}
    rules = [*(spec.get("resources") or []), *([spec["resource"]] if spec.get("resource") else [])]
    plurals = tuple(rule.get("resource", "") for rule in rules if rule.get("apiVersion") == api_version)
    namespaced = bool((request.object.get("metadata") or {}).get("namespace"))
    return _resource(api_version, kind, plurals, namespaced)


@functools.lru_cache(maxsize=256)
def _resource(api_version: str, kind: str, plurals: tuple[str, ...], namespaced: bool) -> Resource:
    group, _, version = api_version.rpartition("/")
    plural = plurals[0] if len(plurals) == 1 else _plural(kind, plurals)
    return Resource(group, version, plural, kind=kind, singular=kind.lower(), namespaced=namespaced)


def _plural(kind: str, plurals: Any) -> str:
    """Return the plural of a kind among several: that with the longest common start."""
    singular = kind.lower()
    guess = singular[:-1] + "ies" if singular.endswith("y") else singular + ("es" if singular.endswith("s") else "s")
    if guess in plurals or not plurals:
        return guess
    return str(max(plurals, key=lambda plural: _common(plural, singular)))


def _common(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
