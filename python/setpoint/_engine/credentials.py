"""Credentials as login handlers return them. Setpoint has its own; these are for the author's clients."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from typing import Any, Optional, Union

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", None]
Data = Union[str, bytes, None]


class LoginError(Exception):
    """No credentials for the API server were found."""


@dataclass(frozen=True)
class ConnectionInfo:
    """How to connect to an API server."""

    server: str
    ca_path: Path = None
    ca_data: Data = None
    insecure: Optional[bool] = None
    username: Optional[str] = None
    password: Optional[str] = None
    scheme: Optional[str] = None
    token: Optional[str] = None
    certificate_path: Path = None
    certificate_data: Data = None
    private_key_path: Path = None
    private_key_data: Data = None
    default_namespace: Optional[str] = None
    proxy_url: Optional[str] = None
    trust_env: bool = False
    priority: int = 0
    expiration: Optional[datetime.datetime] = None

    def __post_init__(self) -> None:
        for name in ("ca", "certificate", "private_key"):
            if getattr(self, f"{name}_path") and getattr(self, f"{name}_data"):
                raise ValueError(f"{name}_path and {name}_data are given; only one can be used")

    def as_http_headers(self) -> dict[str, str]:
        """Return the header with the token."""
        credentials = " ".join(part for part in (self.scheme or (self.token and "Bearer"), self.token) if part)
        return {"Authorization": credentials} if credentials else {}


@dataclass(frozen=True)
class AiohttpSession:
    """A session of aiohttp. It is accepted from login handlers; Setpoint does not use it."""

    server: str
    aiohttp_session: Any = None
    default_namespace: Optional[str] = None
    priority: int = 0
    expiration: Optional[datetime.datetime] = None
