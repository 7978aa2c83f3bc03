"""Serves a script as Setpoint would start it, in this process or as a child, and calls its handlers."""

from __future__ import annotations

import asyncio
import json
import tempfile
import textwrap
from collections.abc import Mapping
from typing import Any, Optional

from setpoint._engine.operator import Operator
from setpoint._engine.registry import get_default_registry, set_default_registry
from setpoint._serve.message import Request
from setpoint._serve.routes import router
from setpoint.kopf._settings import OperatorSettings
from setpoint.kopf._style import OperatorRegistry


class Script:
    """An operator made of source text, with a registry of its own."""

    def __init__(self, source: str, settings: Optional[OperatorSettings] = None) -> None:
        self.names: dict[str, Any] = {}
        registry = OperatorRegistry()
        former = get_default_registry()
        set_default_registry(registry)
        try:
            exec(compile("import kopf\n" + textwrap.dedent(source), "operator.py", "exec"), self.names)
        finally:
            set_default_registry(former)
        self.operator = Operator(registry, name="operator", settings=settings)
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self.operator.start())
        self._handle = router(self.operator)

    def close(self) -> None:
        """Stop the operator."""
        self._loop.run_until_complete(self.operator.stop())
        self._loop.close()

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> tuple[int, Any]:
        """Make a request and return the status and the decoded body."""
        data = b"" if body is None else json.dumps(body).encode()
        response = self._loop.run_until_complete(self._handle(Request(method, path, headers, data)))
        text = response.body.decode()
        return response.status, json.loads(text) if response.content_type == "application/json" else text

    def declaration(self) -> dict[str, Any]:
        """Return what the script declares."""
        return dict(self.request("GET", "/declaration")[1])

    def handlers(self) -> dict[str, dict[str, Any]]:
        """Return the declared handlers by name."""
        return {h["name"]: h for c in self.declaration()["controllers"] for h in c["spec"].get("handlers", [])}

    def call(self, handler: str, reason: str, obj: Optional[dict[str, Any]] = None, **fields: Any) -> Any:
        """Call a handler by its name, as Setpoint would, and return the response."""
        url = self.handlers()[handler]["webhook"]["url"]
        status, response = self.request("POST", url, {"reason": reason, "object": obj or example(), **fields})
        if status != 200:
            raise AssertionError(f"{status}: {response}")
        return response


def example(**parts: Any) -> dict[str, Any]:
    """Return an object; parts replace its top-level fields, and metadata is merged."""
    metadata = {"name": "one", "namespace": "shop", "uid": "uid-1", **parts.pop("metadata", {})}
    return {"apiVersion": "example.com/v1", "kind": "Example", "metadata": metadata, "spec": {"size": 1}, **parts}


def temporary_directory() -> tempfile.TemporaryDirectory[str]:
    """Return a directory whose path is short enough for a Unix socket."""
    return tempfile.TemporaryDirectory(prefix="sp")
