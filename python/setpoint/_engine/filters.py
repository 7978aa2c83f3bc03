"""Which objects, and which changes of them, a handler is for."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Optional, Union


class MetaFilterToken(enum.Enum):
    """A label, an annotation or a field exists, or does not."""

    ABSENT = enum.auto()
    PRESENT = enum.auto()

    def __repr__(self) -> str:
        return f"kopf.{self.name}"


ABSENT = MetaFilterToken.ABSENT
PRESENT = MetaFilterToken.PRESENT

FilterFn = Callable[..., bool]
MetaFilter = Mapping[str, Union[str, MetaFilterToken, FilterFn]]
ValueFilter = Any

# Stands for a field that an object does not have, where None may be its value.
MISSING: Any = object()


def not_(fn: FilterFn) -> FilterFn:
    """Return a filter that is true where another is false."""
    return lambda *args, **kwargs: not fn(*args, **kwargs)


def all_(fns: Collection[FilterFn]) -> FilterFn:
    """Return a filter that is true where all others are."""
    return lambda *args, **kwargs: all(fn(*args, **kwargs) for fn in fns)


def any_(fns: Collection[FilterFn]) -> FilterFn:
    """Return a filter that is true where one of others is."""
    return lambda *args, **kwargs: any(fn(*args, **kwargs) for fn in fns)


def none_(fns: Collection[FilterFn]) -> FilterFn:
    """Return a filter that is true where all others are false."""
    return lambda *args, **kwargs: not any(fn(*args, **kwargs) for fn in fns)


def check_meta_filter(name: str, pattern: Any) -> None:
    """Refuse a filter of labels or annotations that could never match, with what to do instead."""
    if pattern is None:
        return
    if not isinstance(pattern, Mapping):
        raise TypeError(f"{name}= must be a mapping such as {{'app': 'web'}}, is {pattern!r}")
    for key, value in pattern.items():
        if not isinstance(key, str):
            raise TypeError(f"{name}=: the key {key!r} must be a string")
        if value is None:
            raise ValueError(f"{name}= {key}: None is no filter; use kopf.PRESENT or kopf.ABSENT")
        if not (isinstance(value, (str, MetaFilterToken)) or callable(value)):
            raise TypeError(
                f"{name}= {key}: must be a string, kopf.PRESENT, kopf.ABSENT or a function, is {value!r}; "
                "for one of several values, use a function such as lambda value, **_: value in (...)"
            )


def match_meta(pattern: Optional[MetaFilter], content: Mapping[str, str], kwargs: Callable[[], Mapping[str, Any]]) -> bool:
    """Report whether labels or annotations match."""
    for key, expected in (pattern or {}).items():
        if not match_value(expected, content.get(key, MISSING), kwargs):
            return False
    return True


def match_value(expected: Any, value: Any, kwargs: Callable[[], Mapping[str, Any]]) -> bool:
    """Report whether one value, or MISSING, is the expected one."""
    if expected is PRESENT:
        return value is not MISSING
    if expected is ABSENT:
        return value is MISSING
    if callable(expected):
        return truth(expected(None if value is MISSING else value, **kwargs()))
    return value is not MISSING and bool(expected == value)


def truth(result: Any) -> bool:
    """Return the result of a filter; TypeError if it is to be awaited, which would always be true."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("a filter must not be async")
    return bool(result)


class FilterError(Exception):
    """A filter of a handler failed."""
