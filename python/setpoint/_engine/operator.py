"""The operator of a script: what it declares, and the calls of its handlers."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from typing import Any, Optional

from setpoint._engine.activities import ActivityError, run_activity
from setpoint._engine.arguments import reads
from setpoint._engine.bodies import Body
from setpoint._engine.daemons import Daemons, NotRunning
from setpoint._engine.errors import DeclarationError
from setpoint._engine.events import Sink
from setpoint._engine.filters import FilterError
from setpoint._engine.forgetting import forgetting_unit
from setpoint._engine.handlers import Activity, IndexHandler, ResourceHandler, WebhookHandler
from setpoint._engine.indexing import Indexer
from setpoint._engine.invocation import Cause
from setpoint._engine.memo import Memo, Memos
from setpoint._engine.patch import Patch
from setpoint._engine.registry import Registry
from setpoint._engine.request import NO_EFFECT, NOT_APPLICABLE, HandlerRequest, parse_request
from setpoint._engine.resources import resource_of
from setpoint._engine.response import failure
from setpoint._engine.reviews import Reviews
from setpoint._engine.settings import Settings
from setpoint._engine.units import SEPARATOR, Controller, Unit, group, merge
from setpoint._serve.application import Route
from setpoint._serve.message import NotJSON, Request, Response, respond, respond_error
from setpoint._serve.notifications import Notifications

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


class Operator:
    """The handlers of a registry, served to Setpoint."""

    def __init__(
        self,
        registry: Registry,
        *,
        name: str,
        settings: Optional[Settings] = None,
        memo: Any = None,
        namespaces: tuple[str, ...] = (),
    ) -> None:
        self.registry = registry
        self.name = name
        self.instance = uuid.uuid4().hex
        self.style = registry.style()
        self.settings = settings if settings is not None else self.style.new_settings()
        self.memos = Memos(memo if memo is not None else Memo())
        self.namespaces = namespaces
        self.indices: dict[str, Any] = {}
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
        self.style.begin(self)
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
        self._check(controller)
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
        controller.units += self.style.units(controller)
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
        kind = self.style.kinds[type(unit.first)]
        try:
            response = await kind.handle(self, unit, request)
            if response is NOT_APPLICABLE and not kind.declare(self, unit).get("conditional"):
                # Setpoint has filtered already, so that this is a change for which no function is called.
                response = NO_EFFECT
        except NotRunning as error:
            return respond_error(404, str(error))
        except FilterError as error:
            logger.exception("%s", error)
            response = failure(str(error), self.settings.execution.default_backoff)
        self.style.responded(unit, path, request, response)
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
        handlers = [self._declare_unit(controller, unit) for unit in controller.units if type(unit.first) in self.style.kinds]
        spec: dict[str, Any] = {"handlers": handlers}
        if any(isinstance(unit.first, IndexHandler) for unit in controller.units):
            spec["index"] = {"webhook": {"url": f"/index/{controller.path}"}}
        if handlers:
            spec.update(self.style.spec(self._controllers, controller))
        return {
            "apiVersion": "setpoint.dev/v1alpha1",
            "kind": "HandlerController",
            "metadata": {"name": controller.name},
            "selectors": [selector.declaration() for selector in controller.selectors],
            "spec": spec,
        }

    def _check(self, controller: Controller) -> None:
        for unit in controller.units:
            kind = self.style.kinds.get(type(unit.first))
            if kind is not None:
                kind.declare(self, unit)
            elif not isinstance(unit.first, IndexHandler):
                raise DeclarationError(f"{unit.first}: {unit.first.where}: not supported")

    def _declare_unit(self, controller: Controller, unit: Unit) -> dict[str, Any]:
        return {
            "name": unit.name,
            **({"displayName": unit.first.id[:MAX_DISPLAY_NAME]} if unit.first.id != unit.name else {}),
            **self.style.kinds[type(unit.first)].declare(self, unit),
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
