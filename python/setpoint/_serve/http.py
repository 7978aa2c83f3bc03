"""HTTP/1.1 for one peer on the same machine: keep-alive, Content-Length, chunked streams.

The requests of one connection are served one after the other, those of several beside each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Optional

from setpoint._serve.message import Request, Response, respond_error

logger = logging.getLogger(__name__)

Handle = Callable[[Request], Awaitable[Response]]

MAX_HEAD = 64 << 10
# Kubernetes objects have at most 1.5 MiB each; an index call carries 500.
MAX_BODY = 256 << 20


class BadRequest(Exception):
    """The peer sent what is not an HTTP request of the supported form."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Connection(asyncio.Protocol):
    """Reads requests from one connection and writes their responses in order."""

    def __init__(self, handle: Handle, connections: set[Connection], code: str = "") -> None:
        self._handle = handle
        self._code = code
        self._connections = connections
        self._received = bytearray()
        self._head: Optional[tuple[str, str, dict[str, str], int]] = None
        self._task: Optional[asyncio.Task[None]] = None
        self._streaming = False
        self._transport: Optional[asyncio.Transport] = None
        self._writable = asyncio.Event()
        self._writable.set()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._connections.discard(self)
        self._transport = None
        self._writable.set()
        # A handler has effects elsewhere, so it is not cancelled halfway; a stream has no reader left.
        if self._streaming and self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._next()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # --- requests

    @property
    def busy(self) -> bool:
        """Whether a request is being served. A stream has no end to wait for."""
        return self._task is not None and not self._streaming

    def close(self) -> None:
        """Close the connection; the response that is being made is lost."""
        if self._transport is not None:
            self._transport.close()

    def _next(self) -> None:
        """Start the next request that has been received as a whole."""
        if self._task is not None or self._transport is None:
            return
        try:
            request = self._take_request()
        except BadRequest as error:
            self._write(respond_error(error.status, str(error)), close=True)
            return
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(self._serve(request))

    def _take_request(self) -> Optional[Request]:
        if self._head is None:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                if len(self._received) > MAX_HEAD:
                    raise BadRequest(431, f"the head of the request exceeds {MAX_HEAD} bytes")
                return None
            self._head = _parse_head(bytes(self._received[:end]))
            del self._received[: end + 4]
            if self._head[2].get("expect", "").lower() == "100-continue" and self._transport:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        method, path, headers, length = self._head
        if len(self._received) < length:
            return None
        body = bytes(self._received[:length])
        del self._received[:length]
        self._head = None
        return Request(method, path, headers, body)

    async def _serve(self, request: Request) -> None:
        try:
            response = await self._handle(request)
        except (Exception, asyncio.CancelledError) as error:
            # A call must have a response, also if what it awaited was cancelled.
            logger.exception("%s %s failed", request.method, request.path)
            response = respond_error(500, f"{type(error).__name__}: {error}")
        close = request.headers.get("connection", "").lower() == "close"
        if response.stream is None:
            self._write(response, close)
        else:
            await self._write_stream(response)
        self._task = None
        self._next()

    # --- responses

    def _write(self, response: Response, close: bool) -> None:
        if self._transport is None:
            return
        head = self._response_head(response, f"Content-Length: {len(response.body)}", close)
        self._transport.write(head + response.body)
        if close:
            self._transport.close()

    async def _write_stream(self, response: Response) -> None:
        assert response.stream is not None
        self._streaming = True
        if self._transport is not None:
            self._transport.write(self._response_head(response, "Transfer-Encoding: chunked", close=False))
        async for chunk in response.stream:
            await self._writable.wait()
            if self._transport is None:
                break
            if chunk:
                self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self._streaming = False
        if self._transport is not None:
            self._transport.write(b"0\r\n\r\n")

    def _response_head(self, response: Response, length: str, close: bool) -> bytes:
        reason = HTTPStatus(response.status).phrase
        connection = "Connection: close\r\n" if close else ""
        # Setpoint tells a change of the code by it.
        code = f"Setpoint-Code: {self._code}\r\n" if self._code else ""
        return (
            f"HTTP/1.1 {response.status} {reason}\r\n"
            f"Content-Type: {response.content_type}\r\n{connection}{code}{length}\r\n\r\n"
        ).encode("latin-1")


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str], int]:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequest(400, f"not an HTTP/1.1 request line: {lines[0][:100]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(400, f"not a header: {line[:100]!r}")
        headers[name.lower()] = value.strip()
    return parts[0], parts[1], headers, _content_length(headers)


def _content_length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(411, "chunked requests are not supported: send Content-Length")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise BadRequest(400, f"Content-Length must be a number, is {text[:100]!r}")
    digits = text.lstrip("0") or "0"
    # Python refuses to convert thousands of digits.
    if len(digits) > len(str(MAX_BODY)) or int(digits) > MAX_BODY:
        raise BadRequest(413, f"the request exceeds {MAX_BODY} bytes")
    return int(digits)
