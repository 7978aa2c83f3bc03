"""The part of an object that handlers watch, and its differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from setpoint._engine.dicts import FieldPath, ensure, resolve

_ABSENT: Any = object()
_BOOKKEEPING = ("setpoint.dev/", "kopf.zalando.org/")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def essence(
    body: Mapping[str, Any], fields: Iterable[FieldPath] = (), prefixes: Iterable[str] = ()
) -> dict[str, Any]:
    """Return an object without its status, the metadata of the API server, and the records of engines.

    Fields are kept that a handler watches beside. Annotations with the prefixes are records of Kopf.
    """
    kept = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    metadata = _metadata(_mapping(body.get("metadata")), (*_BOOKKEEPING, *(f"{prefix}/" for prefix in prefixes)))
    if metadata:
        kept["metadata"] = metadata
    for field in fields:
        if field[:2] not in (("metadata", "labels"), ("metadata", "annotations")):
            _keep(body, kept, field)
    return kept


def _metadata(metadata: Mapping[str, Any], bookkeeping: tuple[str, ...]) -> dict[str, Any]:
    annotations = {
        key: value
        for key, value in _mapping(metadata.get("annotations")).items()
        if key != _LAST_APPLIED and not key.startswith(bookkeeping)
    }
    kept = {"labels": dict(_mapping(metadata.get("labels"))), "annotations": annotations}
    return {key: value for key, value in kept.items() if value}


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of an object, also of one that Kopf stored and a user has edited."""
    return value if isinstance(value, Mapping) else {}


def _keep(body: Mapping[str, Any], kept: dict[str, Any], field: FieldPath) -> None:
    if not field or field[0] not in ("status", "metadata", "apiVersion", "kind"):
        return
    value = resolve(body, field, _ABSENT)
    if value is not _ABSENT:
        ensure(kept, field, value)
