"""Where Kopf kept what it handled. Setpoint keeps records of its own; these say what to take over.

They are configuration only: a script creates them, and Setpoint reads their prefixes, keys and fields.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Optional, TypedDict

from setpoint._engine.dicts import FieldSpec, parse_field, resolve

DEFAULT_PREFIX = "kopf.zalando.org"


class ProgressRecord(TypedDict, total=False):
    """The progress of one handler under Kopf."""

    started: Optional[str]
    stopped: Optional[str]
    delayed: Optional[str]
    purpose: Optional[str]
    retries: Optional[int]
    success: Optional[bool]
    failure: Optional[bool]
    message: Optional[str]
    subrefs: Optional[Collection[str]]


class _Storage:
    """A place in objects: annotations with a prefix, or a field of the status."""

    def annotation_prefixes(self) -> Iterable[str]:
        """Return the prefixes of annotations of Kopf's."""
        return ()

    def fields(self) -> Iterable[tuple[str, ...]]:
        """Return the fields of Kopf's in the status."""
        return ()


class DiffBaseStorage(_Storage):
    """Where Kopf kept the state of an object that it had handled."""

    def fetch(self, *, body: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        """Return the state that Kopf had handled; None if there is none."""
        return None


class AnnotationsDiffBaseStorage(DiffBaseStorage):
    """An annotation."""

    def __init__(
        self, *, prefix: str = DEFAULT_PREFIX, key: str = "last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] = (), v1: bool = True,
    ) -> None:
        self.prefix = prefix
        self.key = key
        self.ignored_fields = [parse_field(field) for field in ignored_fields]
        self.v1 = v1

    def annotation_prefixes(self) -> Iterable[str]:
        return [self.prefix]

    def fetch(self, *, body: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        return _decode(resolve(body, ("metadata", "annotations", self.annotation), None))

    @property
    def annotation(self) -> str:
        """The key of the annotation."""
        return f"{self.prefix}/{self.key}" if self.prefix else self.key


class StatusDiffBaseStorage(DiffBaseStorage):
    """A field of the status."""

    def __init__(
        self, *, name: str = "kopf", field: FieldSpec = "status.{name}.last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] = (),
    ) -> None:
        self.field = _formatted(field, name)
        self.ignored_fields = [parse_field(ignored) for ignored in ignored_fields]

    def fields(self) -> Iterable[tuple[str, ...]]:
        return [self.field]

    def fetch(self, *, body: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        return _decode(resolve(body, self.field, None))


class MultiDiffBaseStorage(DiffBaseStorage):
    """Several storages; the first that has the state counts."""

    def __init__(self, storages: Collection[DiffBaseStorage]) -> None:
        self.storages = list(storages)

    def annotation_prefixes(self) -> Iterable[str]:
        return [prefix for storage in self.storages for prefix in storage.annotation_prefixes()]

    def fields(self) -> Iterable[tuple[str, ...]]:
        return [field for storage in self.storages for field in storage.fields()]

    def fetch(self, *, body: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        states = (storage.fetch(body=body) for storage in self.storages)
        return next((state for state in states if state is not None), None)


class ProgressStorage(_Storage):
    """Where Kopf kept the progress of handlers. Setpoint removes it and does not read it."""


class AnnotationsProgressStorage(ProgressStorage):
    """Annotations."""

    def __init__(
        self, *, prefix: str = DEFAULT_PREFIX, verbose: bool = False, touch_key: str = "touch-dummy", v1: bool = True
    ) -> None:
        self.prefix = prefix
        self.verbose = verbose
        self.touch_key = touch_key
        self.v1 = v1

    def annotation_prefixes(self) -> Iterable[str]:
        return [self.prefix]


class StatusProgressStorage(ProgressStorage):
    """A field of the status."""

    def __init__(
        self, *, name: str = "kopf", field: FieldSpec = "status.{name}.progress",
        touch_field: FieldSpec = "status.{name}.dummy",
    ) -> None:
        self.name = name
        self.field = _formatted(field, name)
        self.touch_field = _formatted(touch_field, name)

    def fields(self) -> Iterable[tuple[str, ...]]:
        return [self.field, self.touch_field]


class MultiProgressStorage(ProgressStorage):
    """Several storages."""

    def __init__(self, storages: Collection[ProgressStorage]) -> None:
        self.storages = list(storages)

    def annotation_prefixes(self) -> Iterable[str]:
        return [prefix for storage in self.storages for prefix in storage.annotation_prefixes()]

    def fields(self) -> Iterable[tuple[str, ...]]:
        return [field for storage in self.storages for field in storage.fields()]


class SmartProgressStorage(MultiProgressStorage):
    """Annotations, and formerly the status."""

    def __init__(
        self, *, name: str = "kopf", field: FieldSpec = "status.{name}.progress",
        touch_key: str = "touch-dummy", touch_field: FieldSpec = "status.{name}.dummy",
        prefix: str = DEFAULT_PREFIX, v1: bool = True, verbose: bool = False,
    ) -> None:
        super().__init__(
            [
                AnnotationsProgressStorage(prefix=prefix, verbose=verbose, touch_key=touch_key, v1=v1),
                StatusProgressStorage(name=name, field=field, touch_field=touch_field),
            ]
        )


def _formatted(field: FieldSpec, name: str) -> tuple[str, ...]:
    if isinstance(field, str):
        field = field.format(name=name)
    return parse_field(field)


def _decode(text: Any) -> Optional[dict[str, Any]]:
    """Return the state in a text; one that another client has broken counts as none."""
    try:
        state = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return dict(state) if isinstance(state, Mapping) else None
