"""What a handler wants changed about its object."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional

from setpoint._engine.dicts import MutableView

PatchFn = Callable[[Any], None]


class MetaPatch(MutableView):
    """Changes of the metadata: labels and annotations."""

    def __init__(self, patch: Patch) -> None:
        super().__init__(patch, "metadata")

    @property
    def labels(self) -> MutableView:
        """Changes of the labels; None removes one."""
        return MutableView(self._source, "metadata", "labels")

    @property
    def annotations(self) -> MutableView:
        """Changes of the annotations; None removes one."""
        return MutableView(self._source, "metadata", "annotations")


class Patch(dict[str, Any]):
    """A JSON merge patch: None removes a field, lists are replaced as a whole.

    Functions in `fns` change a copy of the object in place; what they change joins the patch.
    """

    # Views are made when they are used: kept here, each patch would be a cycle for the garbage collector.


    def __init__(
        self,
        source: Optional[Mapping[str, Any]] = None,
        /,
        body: Optional[Mapping[str, Any]] = None,
        fns: Iterable[PatchFn] = (),
    ) -> None:
        super().__init__(source or {})
        self._body = body
        self._fns = [*(source.fns if isinstance(source, Patch) else ()), *fns]

    @property
    def meta(self) -> MetaPatch:
        """Changes of the metadata."""
        return MetaPatch(self)

    @property
    def metadata(self) -> MetaPatch:
        """Changes of the metadata."""
        return MetaPatch(self)

    @property
    def spec(self) -> MutableView:
        """Changes of the spec."""
        return MutableView(self, "spec")

    @property
    def status(self) -> MutableView:
        """Changes of the status."""
        return MutableView(self, "status")

    @property
    def fns(self) -> list[PatchFn]:
        """Functions that change the object in place."""
        return self._fns

    def __bool__(self) -> bool:
        return len(self) > 0 or bool(self._fns)

    def __repr__(self) -> str:
        fns = f", fns={self._fns!r}" if self._fns else ""
        return f"Patch({dict(self)!r}{fns})"

    def clear(self) -> None:
        """Drop all changes."""
        super().clear()
        self._fns.clear()

    def merged(self) -> dict[str, Any]:
        """Return the merge patch with what the functions change."""
        if not self._fns:
            return dict(self)
        before = copy.deepcopy(plain(self._body or {}))
        after = merge(copy.deepcopy(before), self)
        for fn in self._fns:
            fn(after)
        return _with(difference(before, after), self, after)


def plain(value: Any) -> Any:
    """Return a value with dicts instead of views."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch in place, as RFC 7386 has it, and return the result."""
    if not isinstance(patch, Mapping):
        return patch
    if not isinstance(target, dict):
        target = {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge(target.get(key), value)
    return target


def difference(before: Any, after: Any) -> dict[str, Any]:
    """Return the merge patch that makes one mapping the other."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            inner = difference(old, value)
            if inner:
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch


def _with(patch: dict[str, Any], explicit: Mapping[str, Any], after: Any) -> dict[str, Any]:
    """Keep what the author set although the object already has it: another client may be changing it."""
    for key, value in explicit.items():
        if isinstance(value, Mapping) and isinstance(after, Mapping) and isinstance(after.get(key), Mapping):
            patch[key] = _with(dict(patch.get(key) or {}), value, after[key])
        elif key not in patch and isinstance(after, Mapping):
            patch[key] = after.get(key)
    return patch
