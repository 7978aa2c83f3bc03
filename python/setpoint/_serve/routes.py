"""Finds the route of a request."""

from __future__ import annotations

from setpoint import _tracing
from setpoint._serve.application import Application, Route
from setpoint._serve.http import Handle
from setpoint._serve.message import Request, Response, respond, respond_error


def router(application: Application) -> Handle:
    """Return a function that serves the declaration and the routes of an application."""
    exact: dict[tuple[str, str], Route] = {}
    prefixes: list[tuple[str, str, Route]] = []
    for (method, path), route in application.routes().items():
        if path.endswith("/"):
            prefixes.append((method, path, route))
        else:
            exact[method, path] = route

    async def handle(request: Request) -> Response:
        _tracing.enter(request.headers)
        path = request.path.partition("?")[0]
        if (request.method, path) == ("GET", "/declaration"):
            return respond(application.declaration())
        route = exact.get((request.method, path))
        if route is not None:
            return await route(request, "")
        for method, prefix, below in prefixes:
            if request.method == method and path.startswith(prefix):
                return await below(request, path[len(prefix) :])
        return respond_error(404, f"no route for {request.method} {path}")

    return handle
