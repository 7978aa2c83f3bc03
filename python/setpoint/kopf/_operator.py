"""The operator of a script: what it declares, and the calls of its handlers."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Optional

from setpoint import _calling
from setpoint._serve.application import Route
from setpoint._serve.message import NotJSON, Request, Response, respond, respond_error
from setpoint._serve.notifications import Notifications
from setpoint.kopf import _changing, _daemons, _forgetting, _takeover, _timers, _watching
from setpoint.kopf._arguments import reads
from setpoint.kopf._activities import ActivityError, run_activity
from setpoint.kopf._admission import Reviews
from setpoint.kopf._bodies import Body
from setpoint.kopf._daemons import Daemons, NotRunning
from setpoint.kopf._events import Sink
from setpoint.kopf._filters import FilterError
from setpoint.kopf._forgetting import ForgettingHandler, forgetting_unit
from setpoint.kopf._handlers import (
    Activity,
    ChangingHandler,
    DaemonHandler,
    IndexHandler,
    Reason,
    ResourceHandler,
    TimerHandler,
    WatchingHandler,
    WebhookHandler,
)
from setpoint.kopf._indexing import Indexer
from setpoint.kopf._invocation import Cause
from setpoint.kopf._memo import Memo, Memos
from setpoint.kopf._patch import Patch
from setpoint.kopf._registry import DeclarationError, OperatorRegistry
from setpoint.kopf._request import NO_EFFECT, NOT_APPLICABLE, HandlerRequest, parse_request
from setpoint.kopf._resources import resource_of
from setpoint.kopf._response import failure
from setpoint.kopf._settings import DEFAULT_FINALIZER, OperatorSettings
from setpoint.kopf._storages import DEFAULT_PREFIX
from setpoint.kopf._takeover import TakeoverHandler, Unfinished, kopf_prefixes, replaced_annotation, takeover_unit
from setpoint.kopf._units import SEPARATOR, Controller, Unit, group, merge

logger = logging.getLogger("kopf")

# How long the results of probes are returned again.
PROBE_CACHE = 10.0
# A call may take long; Setpoint reports one that is overdue.
CALL_TIMEOUT = "24h"
# The length of names in messages that Setpoint accepts.
MAX_DISPLAY_NAME = 253


_SETTINGS = frozenset({"settings"})


class StartError(Exception):
    """The operator cannot start."""


class Kind(NamedTuple):
    """How handlers of one class are declared and called."""

    declare: Callable[[Unit, OperatorSettings], dict[str, Any]]
    handle: Callable[[Operator, Unit, HandlerRequest], Awaitable[dict[str, Any]]]


KINDS: dict[type[ResourceHandler], Kind] = {
    ChangingHandler: Kind(_changing.declare, _changing.handle),
    WatchingHandler: Kind(_watching.declare, _watching.handle),
    TimerHandler: Kind(_timers.declare, _timers.handle),
    DaemonHandler: Kind(_daemons.declare, _daemons.handle),
    TakeoverHandler: Kind(_takeover.declare, _takeover.handle),
    ForgettingHandler: Kind(_forgetting.declare, _forgetting.handle),
    _calling.CallHandler: Kind(_calling.declare, _calling.handle),
}


class Operator:
    """The handlers of a registry, served to Setpoint."""

    def __init__(
        self,
        registry: OperatorRegistry,
        *,
        name: str,
        settings: Optional[OperatorSettings] = None,
        memo: Any = None,
        namespaces: tuple[str, ...] = (),
    ) -> None:
        self.registry = registry
        self.name = name
        self.instance = uuid.uuid4().hex
        self.settings = settings if settings is not None else OperatorSettings()
        self.memos = Memos(memo if memo is not None else Memo())
        self.namespaces = namespaces
        self.unfinished = Unfinished()
        self.indices: dict[str, Any] = {}
        self.kopf_prefixes: tuple[str, ...] = ()
        self.notifications = Notifications()
        self.daemons = Daemons(self.notifications.send)
        self._events = Sink(self.notifications, self.settings)
        self._indexer = Indexer(self)
        self._reviews = Reviews(self)
        self._controllers: list[Controller] = []
        # By their paths, also those that are merged.
        self._by_path: dict[str, Controller] = {}
        # The controllers of which no function reads the memo: none is kept for their objects.
        self._without_memos: set[str] = set()
        self._units: dict[str, Unit] = {}
        self._probes: tuple[float, dict[str, Any]] = (float("-inf"), {})

    # --- Application

    async def start(self) -> None:
        """Log in and run the startup handlers, which may change the settings; then declare."""
        self._events.open()
        try:
            # Startup handlers get the indices too, still empty.
            self._indexer.declare(self.registry.handlers(IndexHandler))
            await self._run(Activity.STARTUP)
            await self._run(Activity.LOGIN)
            self.declare()
        except ActivityError as error:
            self._events.close()
            raise StartError(str(error)) from error
        except BaseException:
            self._events.close()
            raise

    def describe(self) -> None:
        """Declare without startup handlers: the indices are empty, and the settings are the default ones."""
        self._indexer.declare(self.registry.handlers(IndexHandler))
        self.declare()

    def declare(self) -> None:
        """Make controllers of the handlers; DeclarationError if they do not fit together."""
        self.kopf_prefixes = kopf_prefixes(self.settings)
        self._reviews.declare()
        self._controllers = group(self._served(), self.name)
        self._by_path, self._units = {}, {}
        for controller in self._controllers:
            self._add(controller)

    async def stop(self) -> None:
        """Stop the daemons, and run the cleanup handlers."""
        self._indexer.close()
        await self.daemons.close()
        try:
            await self._run(Activity.CLEANUP)
        except ActivityError as error:
            logger.error("%s", error)
        self._events.close()
        self.settings.execution.executor.shutdown(wait=False)

    def declaration(self) -> dict[str, Any]:
        """Return what Setpoint compiles."""
        return {
            "name": self.name,
            "instance": self.instance,
            "controllers": [*map(self._declare, self._controllers), *self._reviews.declare()],
            "namespaces": list(self.namespaces),
            "notifications": "/notifications",
            "health": "/healthz",
            "merged": "/controllers",
        }

    def routes(self) -> dict[tuple[str, str], Route]:
        """Return the routes of the process."""
        return {
            ("POST", "/handlers/"): self._call,
            ("POST", "/index/"): self._index,
            ("POST", "/reviews/"): self._review,
            ("GET", "/controllers/"): self._merged,
            ("GET", "/notifications"): self.notifications.route,
            ("GET", "/healthz"): self._health,
        }

    def _served(self) -> list[ResourceHandler]:
        return [handler for handler in self.registry.all_handlers() if not isinstance(handler, WebhookHandler)]

    def _add(self, controller: Controller) -> None:
        self._add_own_units(controller)
        _check_kinds(controller, self.settings)
        self._by_path[controller.path] = controller
        self._units.update((f"{controller.path}/{unit.name}", unit) for unit in controller.units)

    def _controller(self, path: str) -> Optional[Controller]:
        """Return a controller by its path; one that is merged is made when it is used first."""
        parts = [self._by_path.get(name) for name in path.split(SEPARATOR)]
        if path not in self._by_path and len(set(map(id, parts))) == len(parts) > 1 and None not in parts:
            self._add(merge(tuple(part for part in parts if part), self._served()))
        return self._by_path.get(path)

    def _add_own_units(self, controller: Controller) -> None:
        """Add handlers of ours, after all others."""
        handlers = [definition for unit in controller.units for definition in unit.definitions]
        if any(isinstance(handler, ChangingHandler) for handler in handlers):
            controller.units.append(takeover_unit(controller.selector))
        forgetting = forgetting_unit(controller.selector, handlers)
        if forgetting is None:
            self._without_memos.add(controller.path)
        else:
            controller.units.append(forgetting)

    # --- calls

    def cause(self, request: HandlerRequest, extra: Mapping[str, Any], *, forgotten: bool = False) -> Cause:
        """Return why handlers are called, for one request. A memo that is forgotten is for this call only."""
        forgotten = forgotten or request.path in self._without_memos
        return Cause(
            body=Body(request.object),
            resource=resource_of(request),
            memo=self.memos.fresh() if forgotten else self.memos.of(request.object),
            settings=self.settings,
            indices=self.indices,
            patch=Patch(body=request.object),
            extra=extra,
        )

    async def _call(self, http: Request, path: str) -> Response:
        of, _, _ = path.rpartition("/")
        unit = self._units.get(path) if self._controller(of) else None
        if unit is None:
            return respond_error(404, f"no handler {path}: the process has been replaced by one that declares others")
        try:
            request = parse_request(http.json(), of)
        except ValueError as error:
            return respond_error(400, str(error))
        kind = KINDS[type(unit.first)]
        try:
            response = await kind.handle(self, unit, request)
            if response is NOT_APPLICABLE and not kind.declare(unit, self.settings).get("conditional"):
                # Setpoint has filtered already, so that this is a change for which no function is called.
                response = NO_EFFECT
        except NotRunning as error:
            return respond_error(404, str(error))
        except FilterError as error:
            logger.exception("%s", error)
            response = failure(str(error), self.settings.execution.default_backoff)
        if isinstance(unit.first, ChangingHandler):
            self.unfinished.record(request.object, path, response)
        try:
            return respond(response)
        except NotJSON as fault:
            return respond(failure(f"{unit.first}: {fault}", self.settings.execution.default_backoff))

    async def _index(self, http: Request, path: str) -> Response:
        controller = self._controller(path)
        if controller is None:
            return respond_error(404, f"no controller {path}: the process has been replaced by one that declares others")
        try:
            await self._indexer.feed(controller, http.json())
        except (ValueError, KeyError, TypeError) as error:
            return respond_error(400, f"not a request of Setpoint: {error!r}")
        return respond({})

    async def _merged(self, http: Request, path: str) -> Response:
        try:
            controller = self._controller(path)
        except DeclarationError as error:
            return respond_error(400, str(error))
        if controller is None:
            return respond_error(404, f"no controllers {path}: the process has been replaced by one that declares others")
        return respond(self._declare(controller))

    async def _review(self, http: Request, path: str) -> Response:
        handler = self._reviews.handler(path)
        if handler is None:
            return respond_error(404, f"no webhook {path}: the process has been replaced by one that declares others")
        try:
            return respond(await self._reviews.review(handler, http.json()))
        except (ValueError, KeyError) as error:
            return respond_error(400, f"not a request of Setpoint: {error!r}")

    async def _health(self, http: Request, path: str) -> Response:
        """Run the probes; a process that responds is alive, whatever they return."""
        checked, results = self._probes
        if time.monotonic() - checked > PROBE_CACHE:
            try:
                results = await self._run(Activity.PROBE)
            except ActivityError as error:
                results = {"error": str(error)}
            self._probes = (time.monotonic(), results)
        try:
            return respond(results)
        except NotJSON as fault:
            return respond({"error": f"a probe returned what has no JSON form: {fault}"})

    async def _run(self, activity: Activity) -> dict[str, Any]:
        kwargs = {"memo": self.memos.shared, **self.indices}
        return await run_activity(self.registry, activity, self.settings, kwargs)

    # --- declaration

    def _declare(self, controller: Controller) -> dict[str, Any]:
        handlers = [self._declare_unit(controller, unit) for unit in controller.units if type(unit.first) in KINDS]
        spec: dict[str, Any] = {"handlers": handlers}
        owned = _calling.owned_kinds([d for unit in controller.units for d in unit.definitions])
        if owned:
            spec["owns"] = owned
        if any(isinstance(unit.first, IndexHandler) for unit in controller.units):
            spec["index"] = {"webhook": {"url": f"/index/{controller.path}"}}
        if handlers:
            spec.update(self._finalizers(controller))
            annotation = replaced_annotation(self.settings)
            if annotation:
                spec["replacedAnnotation"] = annotation
            prefixes = [f"{prefix}/" for prefix in self.kopf_prefixes if prefix != DEFAULT_PREFIX]
            if prefixes:
                spec["ignoredAnnotationPrefixes"] = prefixes
        return {
            "apiVersion": "setpoint.dev/v1alpha1",
            "kind": "HandlerController",
            "metadata": {"name": controller.name},
            "selectors": [selector.declaration() for selector in controller.selectors],
            "spec": spec,
        }

    def _finalizers(self, controller: Controller) -> dict[str, Any]:
        """Return the finalizer of the settings; a number tells apart controllers that may have objects in common."""
        finalizer = self.settings.persistence.finalizer
        if finalizer == DEFAULT_FINALIZER:
            had = any(_had_finalizer(d) for unit in controller.units for d in unit.definitions)
            return {"replacedFinalizers": [DEFAULT_FINALIZER]} if had else {}
        first = controller.parts[0] if controller.parts else controller
        earlier = self._controllers[: self._controllers.index(first)]
        number = 1 + sum(other.selector.may_overlap(controller.selector) for other in earlier)
        return {"finalizer": finalizer if number == 1 else f"{finalizer}-{number}"}

    def _declare_unit(self, controller: Controller, unit: Unit) -> dict[str, Any]:
        return {
            "name": unit.name,
            **({"displayName": unit.first.id[:MAX_DISPLAY_NAME]} if unit.first.id != unit.name else {}),
            **KINDS[type(unit.first)].declare(unit, self.settings),
            "webhook": {"url": f"/handlers/{controller.path}/{unit.name}", "timeout": CALL_TIMEOUT},
        }


class Description:
    """An operator that is not run. Setpoint calls its handlers as dry runs, which call no function."""

    def __init__(self, operator: Operator) -> None:
        self.routes = operator.routes
        self._operator = operator

    def declaration(self) -> dict[str, Any]:
        """Return what the operator declares, and what it may declare otherwise after its startup."""
        startup = self._operator.registry.activities(Activity.STARTUP)
        unset = [f"{handler.id} ({handler.where})" for handler in startup if reads(handler.fn, _SETTINGS)]
        return {**self._operator.declaration(), "unsetBy": unset}

    async def start(self) -> None:
        """Declare."""
        self._operator.describe()

    async def stop(self) -> None:
        """Nothing was started."""


def _had_finalizer(handler: ResourceHandler) -> bool:
    """Report whether Kopf set its finalizer for a handler. On other objects, it is another operator's."""
    if isinstance(handler, ChangingHandler):
        return handler.reason is Reason.DELETE and not handler.optional
    return isinstance(handler, (DaemonHandler, TimerHandler))


def _check_kinds(controller: Controller, settings: OperatorSettings) -> None:
    for unit in controller.units:
        if type(unit.first) not in KINDS and not isinstance(unit.first, IndexHandler):
            raise DeclarationError(f"{unit.first}: {unit.first.where}: not supported")
        if type(unit.first) in KINDS:
            KINDS[type(unit.first)].declare(unit, settings)
