"""The containers of indices: read-only for handlers, filled by indexing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Dict, Generic, Iterator, Set, Tuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

# Identifies an object: namespace, name and UID.
ObjectKey = Tuple[Any, Any, Any]


class Store(Collection, Generic[V]):  # type: ignore[type-arg]
    """All values under one key of an index, one for each object that has the key."""

    def __init__(self) -> None:
        self._values: Dict[ObjectKey, V] = {}

    def __repr__(self) -> str:
        return repr(list(self))

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[V]:
        # A copy, because a handler in a thread may read while an object changes.
        return iter(list(self._values.values()))

    def __contains__(self, value: object) -> bool:
        return value in list(self._values.values())


class Index(Mapping, Generic[K, V]):  # type: ignore[type-arg]
    """The stores of an index by their keys. A key without values is absent."""

    def __init__(self) -> None:
        self._stores: Dict[K, Store[V]] = {}
        self._keys: Dict[ObjectKey, Set[K]] = {}

    def __repr__(self) -> str:
        return repr(dict(self._stores))

    def __len__(self) -> int:
        return len(self._stores)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._stores))

    def __getitem__(self, key: K) -> Store[V]:
        return self._stores[key]

    def __contains__(self, key: object) -> bool:
        return key in self._stores


def put(index: Index[Any, Any], obj: ObjectKey, result: Any) -> None:
    """Replace what an object has in the index by the result of its function.

    A result that is no mapping has the key None.
    """
    values = result if isinstance(result, Mapping) else {None: result}
    for key, value in values.items():
        index._stores.setdefault(key, Store())._values[obj] = value
    for key in index._keys.get(obj, set()) - set(values):
        _remove(index, obj, key)
    index._keys[obj] = set(values)


def discard(index: Index[Any, Any], obj: ObjectKey) -> None:
    """Remove all values of an object."""
    for key in index._keys.pop(obj, set()):
        _remove(index, obj, key)


def _remove(index: Index[Any, Any], obj: ObjectKey, key: Any) -> None:
    store = index._stores[key]
    store._values.pop(obj, None)
    if not store._values:
        del index._stores[key]
