"""Fields of nested mappings, and views of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Union

FieldPath = tuple[str, ...]
FieldSpec = Union[None, str, FieldPath, list[str]]

_REQUIRED: Any = object()


def parse_field(field: FieldSpec) -> FieldPath:
    """Return the names of a field such as "spec.size", ("spec", "size") or ["spec", "size"]."""
    if field is None:
        return ()
    if isinstance(field, str):
        return tuple(field.split("."))
    if isinstance(field, (list, tuple)) and all(isinstance(name, str) for name in field):
        return tuple(field)
    raise TypeError(f"a field is a string such as 'spec.size', or a tuple of strings; is {field!r}")


def resolve(source: Any, field: FieldSpec, default: Any = _REQUIRED) -> Any:
    """Return the value of a field. Without a default, an absent field is a KeyError."""
    value = source
    for name in parse_field(field):
        if not isinstance(value, Mapping) or name not in value:
            if default is _REQUIRED:
                raise KeyError(name)
            return default
        value = value[name]
    return value


def ensure(target: MutableMapping[str, Any], field: FieldSpec, value: Any) -> None:
    """Set a field, and create the mappings around it."""
    *parents, last = parse_field(field)
    for name in parents:
        if not isinstance(target.get(name), MutableMapping):
            target[name] = {}
        target = target[name]
    target[last] = value


def pick(source: Mapping[str, Any], target: MutableMapping[str, Any], fields: Iterable[FieldPath]) -> None:
    """Copy the fields that are present."""
    for field in fields:
        value = resolve(source, field, _REQUIRED if not field else _ABSENT)
        if value is not _ABSENT:
            ensure(target, field, value)


_ABSENT: Any = object()


class View(Mapping[str, Any]):
    """A read-only view of one field of a mapping that may change or be absent."""

    def __init__(self, source: Mapping[str, Any], *path: str) -> None:
        self._source = source
        self._path = path

    def _mapping(self) -> Mapping[str, Any]:
        value: Any = self._source
        for name in self._path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    def __getitem__(self, key: str) -> Any:
        return self._mapping()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping())

    def __len__(self) -> int:
        return len(self._mapping())

    def __repr__(self) -> str:
        return repr(dict(self))


class MutableView(View, MutableMapping[str, Any]):
    """A view that writes: the mappings around a set key are created."""

    _source: MutableMapping[str, Any]

    def __setitem__(self, key: str, value: Any) -> None:
        ensure(self._source, (*self._path, key), value)

    def __delitem__(self, key: str) -> None:
        mapping = self._mapping()
        if not isinstance(mapping, MutableMapping):
            raise KeyError(key)
        del mapping[key]
