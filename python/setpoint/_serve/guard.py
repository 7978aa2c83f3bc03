"""Refuses requests that are not Setpoint's: a client that runs a handler acts with the rights of the script."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from typing import Optional
from urllib.parse import urlsplit

from setpoint._serve.http import Handle
from setpoint._serve.message import Request, Response, respond_error


@dataclass(frozen=True)
class Endpoint:
    """Where to listen: a Unix socket, or a host and a port with the token that its callers have."""

    socket: Optional[str] = None
    host: str = "127.0.0.1"
    port: int = 0
    token: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else f"http://{self.host}:{self.port}"


def guarded(handle: Handle, endpoint: Endpoint) -> Handle:
    """Return a function that serves only what Setpoint may have sent to an endpoint."""

    async def serve(request: Request) -> Response:
        return refusal(request, endpoint) or await handle(request)

    return serve


def refusal(request: Request, endpoint: Endpoint) -> Optional[Response]:
    """Return why a request is refused; None if it is not. A socket has the permissions of its file."""
    if endpoint.socket:
        return None
    headers = request.headers
    if "origin" in headers:
        return respond_error(403, "a request of a browser: only Setpoint calls this process")
    host = headers.get("host", "")[:100]
    if _is_loopback(endpoint.host) and not _is_loopback(_hostname(host)):
        return respond_error(403, f"Host {host!r} is not {endpoint.host}:{endpoint.port}: a name that leads here is not enough")
    content = headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and content != "application/json":
        return respond_error(415, f"Content-Type must be application/json, is {content[:100] or 'missing'}")
    given = headers.get("authorization", "").encode()
    if not endpoint.token or not hmac.compare_digest(given, f"Bearer {endpoint.token}".encode()):
        return respond_error(401, "the token of --token-file is missing or wrong: setpoint has it by --operator-token-file")
    return None


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
