"""Admission handlers: declared as webhooks of an AdmissionController, and called with its reviews."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from setpoint._engine.bodies import Body
from setpoint._engine.diffs import diff
from setpoint._engine.errors import DeclarationError
from setpoint._engine.errors import ErrorsMode, PermanentError
from setpoint._engine.handlers import WebhookHandler, WebhookType
from setpoint._engine.invocation import Call, Cause, invoke
from setpoint._engine.outcome import Attempts, outcome_of
from setpoint._engine.request import HandlerRequest
from setpoint._engine.selection import matches, selectors
from setpoint._engine.selectors import Selector
from setpoint._engine.units import unique_names
from setpoint._serve.message import NotJSON, encode

if TYPE_CHECKING:
    from setpoint._engine.operator import Operator

logger = logging.getLogger("kopf")

# What an AdmissionController may have.
MAX_WEBHOOKS = 32
# What a response may have.
MAX_WARNINGS = 100
# The most that the API server waits, as Kopf has it.
TIMEOUT = 30

_STORING = ["CREATE", "UPDATE"]
_OPERATIONS = ["CREATE", "UPDATE", "DELETE", "CONNECT"]


class AdmissionError(PermanentError):
    """Denies a change. The user sees the message."""

    def __init__(self, message: Optional[str] = "", code: Optional[int] = 500) -> None:
        super().__init__(message)
        self.code = code


class Reviews:
    """The admission handlers of an operator, by the paths of their webhooks."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._handlers: dict[str, WebhookHandler] = {}

    def declare(self) -> list[dict[str, Any]]:
        """Return AdmissionControllers with a webhook for each decorator, in their order."""
        handlers = self._operator.registry.handlers(WebhookHandler)
        names = unique_names(handler.id for handler in handlers)
        controllers = []
        for start in range(0, len(handlers), MAX_WEBHOOKS):
            controller = f"{self._operator.name}-{start // MAX_WEBHOOKS + 1}" if start else self._operator.name
            webhooks = []
            for name, handler in list(zip(names, handlers))[start : start + MAX_WEBHOOKS]:
                self._handlers[f"{controller}/{name}"] = handler
                webhooks.append({"name": name, **_webhook(handler, f"/reviews/{controller}/{name}")})
            controllers.append(_controller(controller, webhooks))
        return controllers

    def handler(self, path: str) -> Optional[WebhookHandler]:
        """Return the handler of the webhook with a path."""
        return self._handlers.get(path)

    async def review(self, handler: WebhookHandler, data: Mapping[str, Any]) -> dict[str, Any]:
        """Serve one review."""
        cause = self._cause(data)
        if not matches(handler, cause.body, cause.kwargs):
            return {"allowed": True}
        call = Call(handler, cause.settings, cause)
        attempts = Attempts(errors=ErrorsMode.PERMANENT)
        outcome = await outcome_of(invoke(call, cause.kwargs()), handler, attempts, cause.event_logger)
        warnings = [str(line) for line in cause.extra["warnings"]][:MAX_WARNINGS]
        response: dict[str, Any] = {"warnings": warnings} if warnings else {}
        if cause.events:
            response["events"] = cause.events
        if outcome.error is not None:
            return {**response, **_denial(outcome.error)}
        return {**response, "allowed": True, **_changes(handler, cause)}

    def _cause(self, data: Mapping[str, Any]) -> Cause:
        new, old = data.get("object"), data.get("oldObject")
        body = new if new is not None else old or {}
        extra = {
            "operation": data["operation"],
            "subresource": data.get("subresource") or None,
            "dryrun": bool(data.get("dryRun")),
            "userinfo": data.get("user") or {},
            "warnings": [],
            # The API server calls Setpoint, so this process does not know its headers and certificate.
            "headers": {},
            "sslpeer": {},
            "old": Body(old) if old is not None else None,
            "new": Body(new) if new is not None else None,
            "diff": diff(old, new),
        }
        return self._operator.cause(HandlerRequest("Review", body), extra, forgotten=data["operation"] == "CREATE")


def _controller(name: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "setpoint.dev/v1alpha1",
        "kind": "AdmissionController",
        "metadata": {"name": name},
        "spec": {"webhooks": webhooks},
    }


def _webhook(handler: WebhookHandler, path: str) -> dict[str, Any]:
    assert isinstance(handler.selector, Selector)
    rule: dict[str, Any] = {"selector": handler.selector.declaration(), "operations": _operations(handler)}
    if handler.subresource is not None:
        rule["subresources"] = [handler.subresource]
    webhook: dict[str, Any] = {
        "type": "Mutate" if handler.reason is WebhookType.MUTATING else "Validate",
        "rules": [rule],
        # As with Kopf, a rule has no exceptions.
        "systemNamespaces": "Include",
        "failurePolicy": "Ignore" if handler.ignore_failures else "Fail",
        "timeoutSeconds": TIMEOUT,
        "webhook": {"url": path},
    }
    labels = selectors([handler]).get("labelSelector")
    if labels:
        webhook["objectSelector"] = labels
    return webhook


def _operations(handler: WebhookHandler) -> list[str]:
    mutating = handler.reason is WebhookType.MUTATING
    given = handler.operations if handler.operations is not None else _STORING if mutating else _OPERATIONS
    given = [given] if isinstance(given, str) else given
    for operation in given:
        if operation not in _OPERATIONS:
            raise DeclarationError(f"{handler}: {handler.where}: unknown operation {operation!r}: use {_OPERATIONS}")
        if mutating and operation not in _STORING:
            raise DeclarationError(
                f"{handler}: {handler.where}: {operation} stores no object that a mutating handler could change: "
                "use @kopf.on.validate"
            )
    return [operation for operation in _OPERATIONS if operation in given]


def _denial(error: Exception) -> dict[str, Any]:
    code = getattr(error, "code", None) if isinstance(error, AdmissionError) else None
    if not isinstance(code, int) or not 400 <= code <= 599:
        code = 500
    return {"allowed": False, "message": str(error) or repr(error), "code": code}


def _changes(handler: WebhookHandler, cause: Cause) -> dict[str, Any]:
    """Return the patch of a mutating handler."""
    patch = cause.patch.merged()
    if not patch:
        return {}
    if handler.reason is WebhookType.VALIDATING:
        cause.logger.warning(f"{handler}: the patch of a validating handler is ignored: use @kopf.on.mutate")
        return {}
    try:
        encode(patch)
    except NotJSON as fault:
        message = f"{handler}: its patch cannot be stored: {fault}"
        cause.logger.error(message)
        return {"allowed": False, "message": message, "code": 500}
    return {"patch": patch}
