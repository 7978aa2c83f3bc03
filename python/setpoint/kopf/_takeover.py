"""Objects that Kopf handled before: nothing is handled twice, and Kopf's annotations go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from setpoint.kopf._dicts import ensure, resolve
from setpoint.kopf._essence import essence
from setpoint.kopf._handlers import ResourceHandler
from setpoint.kopf._request import NOT_APPLICABLE, HandlerRequest
from setpoint.kopf._selectors import Selector
from setpoint.kopf._settings import OperatorSettings
from setpoint.kopf._storages import AnnotationsDiffBaseStorage
from setpoint.kopf._units import Unit

if TYPE_CHECKING:
    from setpoint.kopf._operator import Operator

# How often the last handler looks whether the others have ended.
RETRY = 2.0


def kopf_prefixes(settings: OperatorSettings) -> tuple[str, ...]:
    """Return the prefixes of Kopf's annotations, as the settings have them."""
    storages = (settings.persistence.diffbase_storage, settings.persistence.progress_storage)
    return tuple(dict.fromkeys(prefix for storage in storages for prefix in storage.annotation_prefixes() if prefix))


def handled_by_kopf(settings: OperatorSettings, body: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    """Return the state of an object that Kopf handled; None if it has not."""
    state = settings.persistence.diffbase_storage.fetch(body=body)
    return None if state is None else essence(state, _status_fields(state), kopf_prefixes(settings))


def _status_fields(state: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """Return the fields of the status that Kopf kept because handlers watched them."""
    return [("status",)] if "status" in state else []


def replaced_annotation(settings: OperatorSettings) -> Optional[str]:
    """Return the annotation of objects that Kopf has handled; None if the state is elsewhere."""
    storage = settings.persistence.diffbase_storage
    return storage.annotation if isinstance(storage, AnnotationsDiffBaseStorage) else None


@dataclass(frozen=True, eq=False)
class TakeoverHandler(ResourceHandler):
    """Not the author's: the last handler of an object, which removes Kopf's annotations."""


def takeover_unit(selector: Selector) -> Unit:
    """Return the handler that removes Kopf's annotations."""
    return Unit("kopf-takeover", [TakeoverHandler(id="kopf-takeover", fn=print, selector=selector)])


def declare(unit: Unit, settings: OperatorSettings) -> dict[str, Any]:
    """Return the handler as Setpoint reads it: only objects that Kopf has handled are its own."""
    declared: dict[str, Any] = {"reasons": ["Create", "Update"]}
    annotation = replaced_annotation(settings)
    if annotation:
        expression = {"key": annotation, "operator": "Exists"}
        declared["annotationSelector"] = {"matchExpressions": [expression]}
    else:
        declared["conditional"] = True
    return declared


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Remove what Kopf kept, when all other handlers have used it."""
    if operator.settings.persistence.diffbase_storage.fetch(body=request.object) is None:
        return NOT_APPLICABLE
    if operator.unfinished.get(request.object):
        return {"retryAfterSeconds": RETRY}
    response: dict[str, Any] = {}
    annotations = resolve(request.object, "metadata.annotations", {})
    prefixes = tuple(f"{prefix}/" for prefix in operator.kopf_prefixes)
    removed = {key: None for key in annotations if key.startswith(prefixes)}
    if removed:
        response["patch"] = {"metadata": {"annotations": removed}}
    status: dict[str, Any] = {}
    for field in _fields(operator.settings):
        if resolve(request.object, field, None) is not None:
            ensure(status, field[1:], None)
    if status:
        response["status"] = status
    return response


def _fields(settings: OperatorSettings) -> Iterable[tuple[str, ...]]:
    storages = (settings.persistence.diffbase_storage, settings.persistence.progress_storage)
    return [field for storage in storages for field in storage.fields() if field[:1] == ("status",)]


class Unfinished:
    """The handlers that have not ended, by the uid of the object."""

    def __init__(self) -> None:
        self._by_uid: dict[str, set[str]] = {}

    def get(self, body: Mapping[str, Any]) -> set[str]:
        """Return the names of an object's handlers that will be called again."""
        return self._by_uid.get(_uid(body), set())

    def record(self, body: Mapping[str, Any], unit: str, response: Mapping[str, Any]) -> None:
        """Record whether a handler will be called again."""
        uid = _uid(body)
        if "retryAfterSeconds" in response:
            self._by_uid.setdefault(uid, set()).add(unit)
        elif uid in self._by_uid:
            self._by_uid[uid].discard(unit)
            if not self._by_uid[uid]:
                del self._by_uid[uid]


def _uid(body: Mapping[str, Any]) -> str:
    return str(resolve(body, "metadata.uid", ""))
