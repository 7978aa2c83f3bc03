"""Configures client libraries as Kopf's login has done it: scripts rely on that.

Setpoint makes its own requests with its own credentials, so what a login handler returns is not needed.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import logging
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Optional

from setpoint._engine.credentials import ConnectionInfo, LoginError

logger = logging.getLogger("kopf.activities.authentication")

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def configure_clients_on_import() -> None:
    """Configure the `kubernetes` client when a script imports it, from the Pod or else from KUBECONFIG."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the client library as usual, and configures it after its import."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != "kubernetes":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others if hasattr(finder, "find_spec"))
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        try:
            load_client_configuration()
        except LoginError as error:
            logger.debug("%s", error)
        except Exception as error:
            logger.warning("cannot configure the kubernetes client: %s", error)


def load_client_configuration() -> None:
    """Configure the `kubernetes` client; LoginError if there is neither a service account nor a kubeconfig."""
    config = importlib.import_module("kubernetes.config")
    try:
        config.load_incluster_config()
        logger.debug("the kubernetes client is configured by the service account")
    except config.ConfigException:
        try:
            config.load_kube_config()
            logger.debug("the kubernetes client is configured by the kubeconfig")
        except config.ConfigException as error:
            raise LoginError(f"no service account and no kubeconfig for the kubernetes client: {error}") from None


def login_via_client(*, logger: Any = logger, settings: Any = None, **_: Any) -> Optional[ConnectionInfo]:
    """Configure the `kubernetes` client and return its credentials; None if it is not installed."""
    if importlib.util.find_spec("kubernetes") is None:
        return None
    load_client_configuration()
    configuration = importlib.import_module("kubernetes.client").Configuration.get_default_copy()
    return _info_of(configuration, _header_of(configuration), 10)


async def login_via_async_client(*, logger: Any = logger, settings: Any = None, **_: Any) -> Optional[ConnectionInfo]:
    """Configure `kubernetes_asyncio` and return its credentials; None if it is not installed."""
    if importlib.util.find_spec("kubernetes_asyncio") is None:
        return None
    config = importlib.import_module("kubernetes_asyncio.config")
    try:
        config.load_incluster_config()
    except config.ConfigException:
        try:
            await config.load_kube_config()
        except config.ConfigException as error:
            raise LoginError(f"no service account and no kubeconfig for kubernetes_asyncio: {error}") from None
    configuration = importlib.import_module("kubernetes_asyncio.client").Configuration.get_default_copy()
    header = _header_of(configuration)
    return _info_of(configuration, await header if inspect.isawaitable(header) else header, 15)


def login_via_pykube(*, logger: Any = logger, settings: Any = None, **_: Any) -> Optional[ConnectionInfo]:
    """Return the credentials of pykube's configuration; None if it is not installed."""
    if importlib.util.find_spec("pykube") is None:
        return None
    pykube = importlib.import_module("pykube")
    try:
        config = pykube.KubeConfig.from_service_account()
    except FileNotFoundError:
        try:
            config = pykube.KubeConfig.from_file()
        except Exception as error:
            raise LoginError(f"no service account and no kubeconfig for pykube: {error}") from None
    files = {
        name: config_part[key].filename() if config_part.get(key) else None
        for name, config_part, key in (
            ("ca_path", config.cluster, "certificate-authority"),
            ("certificate_path", config.user, "client-certificate"),
            ("private_key_path", config.user, "client-key"),
        )
    }
    return ConnectionInfo(
        server=config.cluster.get("server"),
        insecure=config.cluster.get("insecure-skip-tls-verify"),
        username=config.user.get("username"),
        password=config.user.get("password"),
        token=config.user.get("token"),
        default_namespace=config.namespace,
        priority=20,
        **files,
    )


def login_with_service_account(*, settings: Any = None, **_: Any) -> Optional[ConnectionInfo]:
    """Return the credentials of the Pod's service account; None outside of a Pod."""
    token = _read(os.path.join(_ACCOUNT, "token"))
    if token is None:
        return None
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    ca_path = os.path.join(_ACCOUNT, "ca.crt")
    return ConnectionInfo(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_path=ca_path if os.path.exists(ca_path) else None,
        token=token,
        default_namespace=_read(os.path.join(_ACCOUNT, "namespace")),
        priority=20,
    )


def login_with_kubeconfig(*, settings: Any = None, **_: Any) -> Optional[ConnectionInfo]:
    """Return the credentials of the current context of $KUBECONFIG or ~/.kube/config; None without either."""
    default = os.path.expanduser("~/.kube/config")
    paths = os.environ.get("KUBECONFIG") or (default if os.path.exists(default) else "")
    if not paths:
        return None
    merged: dict[str, Any] = {}
    for path in filter(None, (path.strip() for path in paths.split(os.pathsep))):
        _merge_kubeconfig(merged, _load_kubeconfig(os.path.expanduser(path)))
    try:
        context = merged["contexts"][merged["current-context"]]
        cluster, user = merged["clusters"][context["cluster"]], merged["users"][context["user"]]
        server = cluster["server"]
    except KeyError as error:
        raise LoginError(f"the kubeconfig {paths} has no {error}") from None
    return ConnectionInfo(
        server=server,
        ca_path=cluster.get("certificate-authority"),
        ca_data=cluster.get("certificate-authority-data"),
        insecure=cluster.get("insecure-skip-tls-verify"),
        certificate_path=user.get("client-certificate"),
        certificate_data=user.get("client-certificate-data"),
        private_key_path=user.get("client-key"),
        private_key_data=user.get("client-key-data"),
        username=user.get("username"),
        password=user.get("password"),
        token=user.get("token"),
        default_namespace=context.get("namespace"),
        proxy_url=cluster.get("proxy-url"),
        priority=10,
    )


def _load_kubeconfig(path: str) -> dict[str, Any]:
    """Read a kubeconfig: YAML if a library for it is installed, else JSON."""
    text = _read(path)
    if text is None:
        raise LoginError(f"cannot read the kubeconfig {path}")
    try:
        if importlib.util.find_spec("yaml") is not None:
            return dict(importlib.import_module("yaml").safe_load(text) or {})
        return dict(json.loads(text))
    except Exception as error:
        raise LoginError(f"cannot read the kubeconfig {path}: {error}; without PyYAML, it must be JSON") from None


def _merge_kubeconfig(merged: dict[str, Any], config: dict[str, Any]) -> None:
    """Add what is not in former files: the first has precedence."""
    if config.get("current-context"):
        merged.setdefault("current-context", config["current-context"])
    for kind in ("contexts", "clusters", "users"):
        named = merged.setdefault(kind, {})
        for item in config.get(kind) or []:
            named.setdefault(item["name"], item.get(kind[:-1]) or {})


def _read(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None


def _header_of(configuration: Any) -> Any:
    """Return the header of a client's token, which newer versions keep under another name."""
    get = configuration.get_api_key_with_prefix
    return get("BearerToken") or get("authorization")


def _info_of(configuration: Any, header: Optional[str], priority: int) -> ConnectionInfo:
    scheme, _, token = (header or "").rpartition(" ")
    return ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        username=configuration.username or None,
        password=configuration.password or None,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        priority=priority,
    )
