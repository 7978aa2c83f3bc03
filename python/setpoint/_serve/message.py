"""Requests and responses, and their JSON."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional


# The address of an object differs each time, and says nothing.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Request:
    """One HTTP request. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """Decode the body; ValueError if it is not JSON."""
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None


@dataclass(frozen=True)
class Response:
    """One HTTP response. A stream, instead of a body, is sent in chunks until it ends."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    stream: Optional[AsyncIterator[bytes]] = None


class NotJSON(ValueError):
    """A value has no JSON form. The message names the field."""


def encode(value: Any) -> bytes:
    """Encode a value as compact JSON; NotJSON names the first field that has no JSON form."""
    try:
        # A surrogate, which is no character, fails to be encoded.
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJSON(_first_fault(value, "", ()) or str(error)) from None


def respond(value: Any, status: int = 200) -> Response:
    """Return a response with a value as JSON."""
    return Response(status, encode(value))


def respond_error(status: int, message: str) -> Response:
    """Return a plain-text error, which Setpoint shows as the error of the call."""
    return Response(status, message.encode(), "text/plain; charset=utf-8")


def _plain(value: Any) -> Any:
    """Return what json.dumps can encode: views of objects are mappings, but not dicts; a Diff is a sequence."""
    if isinstance(value, Mapping):
        return dict(value)
    if _is_list(value):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _first_fault(value: Any, path: str, parents: tuple[int, ...]) -> Optional[str]:
    """Return the path and the fault of the first part of a value that has no JSON form."""
    if id(value) in parents:
        return f"{path or 'value'}: contains itself"
    inside = (*parents, id(value))
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                return f"{path or 'value'}: the key {key!r} must be a string, is {type(key).__name__}"
            fault = _first_fault(item, f"{path}.{key}" if path else key, inside)
            if fault:
                return fault
        return None
    if _is_list(value):
        faults = (_first_fault(item, f"{path}[{i}]", inside) for i, item in enumerate(value))
        return next((fault for fault in faults if fault), None)
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError):
        return f"{path or 'value'}: {_shorten(_ADDRESS.sub('', repr(value)))} is {_kind(value)}, which has no JSON form"
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, range))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "not valid Unicode"
    return "not a finite number" if isinstance(value, float) else type(value).__name__


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
