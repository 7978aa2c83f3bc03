"""Differences between two states of an object."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union, overload

from setpoint._engine.dicts import FieldPath, resolve


class DiffOperation(str, enum.Enum):
    """What happened to a field."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class _DiffItem(NamedTuple):
    operation: DiffOperation
    field: FieldPath
    old: Any
    new: Any


class DiffItem(_DiffItem):
    """One changed field: (operation, field, old, new)."""

    __slots__ = ()

    @property
    def op(self) -> DiffOperation:
        """The operation."""
        return self.operation

    def __repr__(self) -> str:
        return repr(tuple(self))


class Diff(Sequence[DiffItem]):
    """The changed fields of an object. Lists count as a whole."""

    def __init__(self, items: Iterable[Any] = (), /) -> None:
        self._items = tuple(DiffItem(*item) for item in items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[DiffItem]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> DiffItem: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[DiffItem]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[DiffItem, Sequence[DiffItem]]:
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


EMPTY = Diff()


def diff(old: Any, new: Any) -> Diff:
    """Return how two values differ. None means absent."""
    return Diff(_differences(old, new, ()))


def narrow(whole: Diff, field: FieldPath) -> Diff:
    """Return the part of a diff that concerns one field, with paths below that field."""
    return Diff(_narrowed(whole, field))


def _differences(old: Any, new: Any, path: FieldPath) -> Iterator[DiffItem]:
    if old == new:
        return
    if old is None:
        yield DiffItem(DiffOperation.ADD, path, old, new)
    elif new is None:
        yield DiffItem(DiffOperation.REMOVE, path, old, new)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), (*path, key))
    else:
        yield DiffItem(DiffOperation.CHANGE, path, old, new)


def _narrowed(whole: Diff, field: FieldPath) -> Iterator[DiffItem]:
    for operation, path, old, new in whole:
        if path[: len(field)] == field:
            yield DiffItem(operation, path[len(field) :], old, new)
        elif field[: len(path)] == path:
            # A parent of the field appeared or went as a whole.
            rest = field[len(path) :]
            yield from _differences(resolve(old, rest, None), resolve(new, rest, None), ())
