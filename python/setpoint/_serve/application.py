"""What a server serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from setpoint._serve.message import Request, Response

# Route serves the requests of one path. It receives the rest of the path, such as CONTROLLER/HANDLER.
Route = Callable[[Request, str], Awaitable[Response]]


class Application(Protocol):
    """The handlers of one process: what it declares and how it serves it."""

    async def start(self) -> None:
        """Prepare; called before the first request. An exception ends the process."""

    async def stop(self) -> None:
        """Clean up; called after the last request."""

    def declaration(self) -> dict[str, Any]:
        """Return the value of GET /declaration."""

    def routes(self) -> dict[tuple[str, str], Route]:
        """Return the routes by method and path. A path that ends with a slash serves all below it."""
