"""Configures client libraries as Kopf's login has done it: scripts rely on that.

Setpoint makes its own requests with its own credentials, so what a login handler returns is not needed.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Optional

logger = logging.getLogger("kopf.activities.authentication")


class LoginError(Exception):
    """No credentials for the API server were found."""


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
