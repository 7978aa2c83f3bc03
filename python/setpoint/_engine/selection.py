"""Whether a handler is for an object: what selectors say beforehand, and what only Python can say."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

from setpoint._engine.dicts import resolve
from setpoint._engine.filters import ABSENT, MISSING, PRESENT, FilterError, MetaFilter, match_meta, match_value, truth
from setpoint._engine.handlers import ResourceHandler

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def selectors(definitions: list[ResourceHandler]) -> dict[str, Any]:
    """Return labelSelector, annotationSelector and conditional of a handler of Setpoint.

    Selectors are sound only if all decorators have the same; else Python decides alone.
    """
    labels = _common([d.labels for d in definitions])
    annotations = _common([d.annotations for d in definitions])
    declared: dict[str, Any] = {
        "labelSelector": _selector(labels, "matchLabels", _LABEL_VALUE),
        "annotationSelector": _selector(annotations, "matchAnnotations", None),
    }
    declared = {name: value for name, value in declared.items() if value}
    covered = _covers(labels, [d.labels for d in definitions], _LABEL_VALUE) and _covers(
        annotations, [d.annotations for d in definitions], None
    )
    if not covered or any(_is_conditional(d) for d in definitions):
        declared["conditional"] = True
    return declared


def _common(patterns: list[Optional[MetaFilter]]) -> Optional[MetaFilter]:
    """Return the filter that all decorators have; none if they differ."""
    return patterns[0] if all(pattern == patterns[0] for pattern in patterns) else None


def _covers(common: Optional[MetaFilter], patterns: list[Optional[MetaFilter]], value: Optional[re.Pattern[str]]) -> bool:
    """Report whether a selector says all that the filters say."""
    if any(pattern and pattern != common for pattern in patterns):
        return False
    return all(_is_static(key, expected, value) for key, expected in (common or {}).items())


def _is_static(key: str, expected: Any, value: Optional[re.Pattern[str]]) -> bool:
    """Report whether Kubernetes accepts a requirement; what it would refuse stays to Python."""
    if not _KEY.fullmatch(key):
        return False
    if isinstance(expected, str):
        return value is None or value.fullmatch(expected) is not None
    return expected is PRESENT or expected is ABSENT


def _is_conditional(handler: ResourceHandler) -> bool:
    """Report whether only Python can say for which objects a handler is."""
    if handler.when is not None or handler.value is not None:
        return True
    return bool(handler.field) and not handler.is_called_for_its_field


def _selector(pattern: Optional[MetaFilter], match: str, value: Optional[re.Pattern[str]]) -> Optional[dict[str, Any]]:
    """Return the static part of a filter as Kubernetes has it."""
    exact: dict[str, str] = {}
    expressions = []
    for key, expected in (pattern or {}).items():
        if not _is_static(key, expected, value):
            continue
        if isinstance(expected, str):
            exact[key] = expected
        else:
            expressions.append({"key": key, "operator": "Exists" if expected is PRESENT else "DoesNotExist"})
    selector: dict[str, Any] = {match: exact} if exact else {}
    if expressions:
        selector["matchExpressions"] = expressions
    return selector or None


def matches(handler: ResourceHandler, body: Mapping[str, Any], kwargs: Callable[[], Mapping[str, Any]]) -> bool:
    """Report whether a handler is for an object as it is."""
    return matches_states(handler, body, [body], kwargs)


def matches_states(
    handler: ResourceHandler,
    body: Mapping[str, Any],
    states: list[Any],
    kwargs: Callable[[], Mapping[str, Any]],
) -> bool:
    """Report the same for a change: the value of the field may be that of any state."""
    metadata = body.get("metadata") or {}
    with naming(handler):
        return (
            match_meta(handler.labels, metadata.get("labels") or {}, kwargs)
            and match_meta(handler.annotations, metadata.get("annotations") or {}, kwargs)
            and (not handler.field or _matches_field(handler, states, kwargs))
            and (handler.when is None or truth(handler.when(**kwargs())))
        )


@contextlib.contextmanager
def naming(handler: ResourceHandler) -> Iterator[None]:
    """Add the handler to an error of its filters."""
    try:
        yield
    except Exception as error:
        raise FilterError(f"{handler}: a filter failed: {type(error).__name__}: {error}") from error


def _matches_field(handler: ResourceHandler, states: list[Any], kwargs: Callable[[], Mapping[str, Any]]) -> bool:
    values = [resolve(state, handler.field, MISSING) for state in states]
    expected = PRESENT if handler.value is None else handler.value
    return any(match_value(expected, value, kwargs) for value in values)
