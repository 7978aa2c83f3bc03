"""Objects that Kopf handled before: nothing is handled twice, and Kopf's annotations go."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from setpoint._calling import CallStyle
from setpoint._engine.dicts import ensure, resolve
from setpoint._engine.handlers import DaemonHandler, ResourceHandler, WebhookHandler
from setpoint._engine.request import NOT_APPLICABLE, HandlerRequest
from setpoint._engine.units import Controller, Unit
from setpoint.kopf._essence import essence
from setpoint.kopf._handlers import ChangingHandler, Reason, TimerHandler
from setpoint.kopf._settings import DEFAULT_FINALIZER, OperatorSettings, PersistenceSettings
from setpoint.kopf._storages import DEFAULT_PREFIX, AnnotationsDiffBaseStorage, DiffBaseStorage, ProgressStorage

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator

logger = logging.getLogger("kopf")

# How often the last handler looks whether the others have ended.
RETRY = 2.0


class Takeover(CallStyle):
    """What Kopf left on the objects, as the settings say, and which handlers still need it."""

    prefixes: tuple[str, ...] = ()
    persistence: PersistenceSettings

    def __init__(self) -> None:
        # The handlers that will be called again, by the uid of the object.
        self._unfinished: dict[str, set[str]] = {}

    def new_settings(self) -> OperatorSettings:
        return OperatorSettings()

    def begin(self, operator: Operator) -> None:
        settings = operator.settings
        assert isinstance(settings, OperatorSettings)
        self.persistence = settings.persistence
        self.prefixes = tuple(dict.fromkeys(prefix for s in self.storages for prefix in s.annotation_prefixes() if prefix))
        if settings.admission.server is not None and operator.registry.handlers(WebhookHandler):
            logger.info("settings.admission.server is not used: Setpoint serves admission webhooks itself")

    @property
    def storages(self) -> tuple[DiffBaseStorage, ProgressStorage]:
        """Where Kopf kept states and progress."""
        return self.persistence.diffbase_storage, self.persistence.progress_storage

    @property
    def annotation(self) -> Optional[str]:
        """The annotation of objects that Kopf has handled; None if the state is elsewhere."""
        storage = self.persistence.diffbase_storage
        return storage.annotation if isinstance(storage, AnnotationsDiffBaseStorage) else None

    def handled(self, body: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        """Return the state of an object that Kopf handled; None if it has not."""
        state = self.persistence.diffbase_storage.fetch(body=body)
        # Kopf kept the fields of the status that handlers watched.
        fields = [("status",)] if "status" in (state or {}) else []
        return None if state is None else essence(state, fields, self.prefixes)

    def units(self, controller: Controller) -> list[Unit]:
        if not any(isinstance(handler, ChangingHandler) for unit in controller.units for handler in unit.definitions):
            return []
        return [Unit("kopf-takeover", [TakeoverHandler(id="kopf-takeover", fn=print, selector=controller.selector)])]

    def spec(self, controllers: list[Controller], controller: Controller) -> dict[str, Any]:
        prefixes = [f"{prefix}/" for prefix in self.prefixes if prefix != DEFAULT_PREFIX]
        spec = {"replacedAnnotation": self.annotation, "ignoredAnnotationPrefixes": prefixes}
        finalizers = self._finalizers(controllers, controller)
        return {**super().spec(controllers, controller), **finalizers, **{name: value for name, value in spec.items() if value}}

    def _finalizers(self, controllers: list[Controller], controller: Controller) -> dict[str, Any]:
        """Return the finalizer of the settings; a number tells apart controllers that may have objects in common."""
        finalizer = self.persistence.finalizer
        if finalizer == DEFAULT_FINALIZER:
            had = any(_had_finalizer(d) for unit in controller.units for d in unit.definitions)
            return {"replacedFinalizers": [DEFAULT_FINALIZER]} if had else {}
        first = controller.parts[0] if controller.parts else controller
        earlier = controllers[: controllers.index(first)]
        number = 1 + sum(other.selector.may_overlap(controller.selector) for other in earlier)
        return {"finalizer": finalizer if number == 1 else f"{finalizer}-{number}"}

    def responded(self, unit: Unit, path: str, request: HandlerRequest, response: Mapping[str, Any]) -> None:
        if not isinstance(unit.first, ChangingHandler):
            return
        uid = _uid(request.object)
        if "retryAfterSeconds" in response:
            self._unfinished.setdefault(uid, set()).add(path)
        elif uid in self._unfinished:
            self._unfinished[uid].discard(path)
            if not self._unfinished[uid]:
                del self._unfinished[uid]

    def is_unfinished(self, body: Mapping[str, Any]) -> bool:
        """Report whether a handler of an object will be called again."""
        return _uid(body) in self._unfinished


def _had_finalizer(handler: ResourceHandler) -> bool:
    """Report whether Kopf set its finalizer for a handler. On other objects, it is another operator's."""
    if isinstance(handler, ChangingHandler):
        return handler.reason is Reason.DELETE and not handler.optional
    return isinstance(handler, (DaemonHandler, TimerHandler))


def _uid(body: Mapping[str, Any]) -> str:
    return str(resolve(body, "metadata.uid", ""))


def takeover(operator: Operator) -> Takeover:
    """Return the style of an operator whose script has handlers of Kopf."""
    assert isinstance(operator.style, Takeover)
    return operator.style


@dataclass(frozen=True, eq=False)
class TakeoverHandler(ResourceHandler):
    """Not the author's: the last handler of an object, which removes Kopf's annotations."""


def declare(operator: Operator, unit: Unit) -> dict[str, Any]:
    """Return the handler as Setpoint reads it: only objects that Kopf has handled are its own."""
    declared: dict[str, Any] = {"reasons": ["Create", "Update"]}
    annotation = takeover(operator).annotation
    if annotation:
        expression = {"key": annotation, "operator": "Exists"}
        declared["annotationSelector"] = {"matchExpressions": [expression]}
    else:
        declared["conditional"] = True
    return declared


async def handle(operator: Operator, unit: Unit, request: HandlerRequest) -> dict[str, Any]:
    """Remove what Kopf kept, when all other handlers have used it."""
    former = takeover(operator)
    if former.persistence.diffbase_storage.fetch(body=request.object) is None:
        return NOT_APPLICABLE
    if former.is_unfinished(request.object):
        return {"retryAfterSeconds": RETRY}
    response: dict[str, Any] = {}
    annotations = resolve(request.object, "metadata.annotations", {})
    prefixes = tuple(f"{prefix}/" for prefix in former.prefixes)
    removed = {key: None for key in annotations if key.startswith(prefixes)}
    if removed:
        response["patch"] = {"metadata": {"annotations": removed}}
    status: dict[str, Any] = {}
    for field in (field for storage in former.storages for field in storage.fields()):
        if field[:1] == ("status",) and resolve(request.object, field, None) is not None:
            ensure(status, field[1:], None)
    if status:
        response["status"] = status
    return response
