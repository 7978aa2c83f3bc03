"""Webhook servers and tunnels, as scripts configure them.

Setpoint serves admission webhooks itself, with certificates and configurations of its own. So these
classes only hold what the script gave them, for scripts that set settings.admission.server.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Dict, List, Literal, Optional, Protocol, TypedDict, Union

StrPath = Union[str, "os.PathLike[str]"]

Headers = Dict[str, str]
SSLPeer = Dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class UserInfo(TypedDict, total=False):
    """The user who requests a change."""

    username: str
    uid: str
    groups: List[str]
    extra: Dict[str, List[str]]


class WebhookClientConfigService(TypedDict, total=False):
    """The Service of a webhook."""

    namespace: Optional[str]
    name: Optional[str]
    path: Optional[str]
    port: Optional[int]


class WebhookClientConfig(TypedDict, total=False):
    """How the API server reaches a webhook."""

    caBundle: Optional[str]
    url: Optional[str]
    service: Optional[WebhookClientConfigService]


class WebhookFn(Protocol):
    """The function that a webhook server calls for each review."""

    def __call__(
        self,
        request: Any,
        *,
        webhook: Optional[str] = None,
        headers: Optional[Headers] = None,
        sslpeer: Optional[SSLPeer] = None,
    ) -> Awaitable[Any]: ...


WebhookServerProtocol = Callable[[WebhookFn], AsyncIterator[WebhookClientConfig]]


class WebhookServer:
    """A local server. Setpoint serves in its place."""

    DEFAULT_HOST: Optional[str] = None

    def __init__(
        self,
        *,
        addr: Optional[str] = None,
        port: Optional[int] = None,
        path: Optional[str] = None,
        host: Optional[str] = None,
        cadata: Optional[bytes] = None,
        cafile: Optional[StrPath] = None,
        cadump: Optional[StrPath] = None,
        context: Optional[ssl.SSLContext] = None,
        insecure: bool = False,
        certfile: Optional[StrPath] = None,
        pkeyfile: Optional[StrPath] = None,
        password: Optional[str] = None,
        extra_sans: Iterable[str] = (),
        verify_mode: Optional[ssl.VerifyMode] = None,
        verify_cafile: Optional[StrPath] = None,
        verify_capath: Optional[StrPath] = None,
        verify_cadata: Union[str, bytes, None] = None,
        file_check_interval: float = 60.0,
    ) -> None:
        vars(self).update({name: value for name, value in locals().items() if name != "self"})


class WebhookK3dServer(WebhookServer):
    """A server that K3d reaches. Setpoint serves in its place."""

    DEFAULT_HOST = "host.k3d.internal"


class WebhookMinikubeServer(WebhookServer):
    """A server that Minikube reaches. Setpoint serves in its place."""

    DEFAULT_HOST = "host.minikube.internal"


class WebhookDockerDesktopServer(WebhookServer):
    """A server that Docker Desktop reaches. Setpoint serves in its place."""

    DEFAULT_HOST = "host.docker.internal"


class WebhookAutoServer(WebhookServer):
    """A server for the detected cluster. Setpoint serves in its place."""


class WebhookNgrokTunnel:
    """A tunnel through ngrok. Setpoint serves in its place, without a tunnel."""

    def __init__(
        self,
        *,
        addr: Optional[str] = None,
        port: Optional[int] = None,
        path: Optional[str] = None,
        token: Optional[str] = None,
        region: Optional[str] = None,
        binary: Optional[StrPath] = None,
    ) -> None:
        vars(self).update({name: value for name, value in locals().items() if name != "self"})


class WebhookAutoTunnel:
    """A server or a tunnel for the detected cluster. Setpoint serves in its place."""

    def __init__(
        self, *, addr: Optional[str] = None, port: Optional[int] = None, path: Optional[str] = None
    ) -> None:
        vars(self).update({name: value for name, value in locals().items() if name != "self"})
