"""Values that handlers keep in memory, for the operator and for each object."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from typing import Any


class Memo(dict[Any, Any]):
    """A dict whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None


# How long the memo of a deleted object is kept after its last use: handlers may still be retried.
LINGER = 600.0


class Memos:
    """The memo of each object, by its uid: a copy of the operator's at the object's first call."""

    def __init__(self, shared: Any) -> None:
        self.shared = shared
        self._by_uid: dict[str, Any] = {}
        self._seen: dict[str, set[str]] = {}
        # The deleted objects, and when their memos were used last; the oldest first.
        self._leaving: dict[str, float] = {}

    def fresh(self) -> Any:
        """Return a memo that no object has."""
        return copy.copy(self.shared)

    def of(self, body: Mapping[str, Any]) -> Any:
        """Return the memo of an object."""
        uid = _uid(body)
        if self._leaving.pop(uid, None) is not None:
            self._leaving[uid] = time.monotonic()
        memo = self._by_uid.get(uid)
        if memo is None:
            memo = self._by_uid[uid] = self.fresh()
        return memo

    def is_first(self, body: Mapping[str, Any], key: str) -> bool:
        """Report whether this is the first time in this process for an object and a key."""
        seen = self._seen.setdefault(_uid(body), set())
        first = key not in seen
        seen.add(key)
        return first

    def forget(self, body: Mapping[str, Any]) -> None:
        """Drop the memo of a deleted object some time after its last use."""
        now = time.monotonic()
        self._leaving.pop(_uid(body), None)
        self._leaving[_uid(body)] = now
        for uid, used in list(self._leaving.items()):
            if now - used < LINGER:
                break
            for kept in (self._leaving, self._by_uid, self._seen):
                kept.pop(uid, None)


def _uid(body: Mapping[str, Any]) -> str:
    return (body.get("metadata") or {}).get("uid") or ""
