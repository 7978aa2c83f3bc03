"""Values that handlers keep in memory, for the operator and for each object."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from setpoint.kopf._request import HandlerRequest


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


class Memos:
    """The memo of each object, by its uid: a copy of the operator's at the object's first call."""

    def __init__(self, shared: Any) -> None:
        self.shared = shared
        self._by_uid: dict[str, Any] = {}

    def fresh(self) -> Any:
        """Return a memo that no object has."""
        return copy.copy(self.shared)

    def of(self, body: Mapping[str, Any]) -> Any:
        """Return the memo of an object."""
        uid = (body.get("metadata") or {}).get("uid") or ""
        memo = self._by_uid.get(uid)
        if memo is None:
            memo = self._by_uid[uid] = self.fresh()
        return memo

    def forget(self, body: Mapping[str, Any]) -> None:
        """Drop the memo of an object that is gone."""
        self._by_uid.pop((body.get("metadata") or {}).get("uid") or "", None)

    def settle(self, request: HandlerRequest) -> None:
        """Drop the memo of an object that is gone after its last call."""
        if request.deleted:
            self.forget(request.object)
