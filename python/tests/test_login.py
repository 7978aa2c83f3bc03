"""The implicit login of client libraries, and login functions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import unittest
from unittest import mock

from setpoint import kopf
from tests.harness import temporary_directory
from tests.test_server import PACKAGE

# A stand-in for the client library, with what its users and we call.
CLIENT = {
    "__init__.py": "from kubernetes import client, config",
    "client.py": """
        import os
        class Configuration:
            default = None
            host = 'http://localhost'
            ssl_ca_cert = cert_file = key_file = username = password = None
            verify_ssl = True
            @classmethod
            def get_default_copy(cls): return cls.default or cls()
            def get_api_key_with_prefix(self, name, alias=None):
                return 'Bearer secret' if name in os.environ.get('TOKEN', 'authorization').split() else None
    """,
    "config.py": """
        import os
        from kubernetes import client
        class ConfigException(Exception): ...
        def load_incluster_config():
            if 'KUBERNETES_SERVICE_HOST' not in os.environ: raise ConfigException('not in a cluster')
            use('https://pod')
        def load_kube_config():
            if 'KUBECONFIG' not in os.environ: raise ConfigException('no kubeconfig')
            use(os.environ['KUBECONFIG'])
        def use(host):
            client.Configuration.default = client.Configuration()
            client.Configuration.default.host = host
    """,
}

SCRIPT = """
    from setpoint._engine.login import configure_clients_on_import, login_via_client
    configure_clients_on_import()
    import kubernetes
    print(kubernetes.client.Configuration.get_default_copy().host)
    try:
        print(login_via_client(logger=None, settings=None).as_http_headers())
    except Exception as error:
        print(type(error).__name__)
"""


class ImplicitLogin(unittest.TestCase):
    def run_script(self, **environment: str) -> list[str]:
        with temporary_directory() as folder:
            os.mkdir(os.path.join(folder, "kubernetes"))
            for name, text in CLIENT.items():
                with open(os.path.join(folder, "kubernetes", name), "w", encoding="utf-8") as file:
                    file.write(textwrap.dedent(text))
            clean = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
            result = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(SCRIPT)], check=True, capture_output=True, text=True,
                env={**clean, "PYTHONPATH": os.pathsep.join((PACKAGE, folder)), **environment},
            )
        return result.stdout.splitlines()

    def test_the_pod_has_precedence(self) -> None:
        environment = {"KUBERNETES_SERVICE_HOST": "x", "KUBECONFIG": "https://file"}
        self.assertEqual(self.run_script(**environment), ["https://pod", "{'Authorization': 'Bearer secret'}"])

    def test_the_token_is_found_under_the_name_of_each_version(self) -> None:
        # Version 36 of the client has renamed it, and some releases of it have it under both names or the former one.
        for names, headers in (
            ("authorization", "{'Authorization': 'Bearer secret'}"),
            ("BearerToken", "{'Authorization': 'Bearer secret'}"),
            ("BearerToken authorization", "{'Authorization': 'Bearer secret'}"),
            ("none", "{}"),
        ):
            with self.subTest(names):
                self.assertEqual(self.run_script(KUBECONFIG="https://file", TOKEN=names), ["https://file", headers])

    def test_then_the_kubeconfig(self) -> None:
        self.assertEqual(self.run_script(KUBECONFIG="https://file")[0], "https://file")

    def test_without_either_the_import_succeeds(self) -> None:
        self.assertEqual(self.run_script(), ["http://localhost", "LoginError"])


class LoginFunctions(unittest.TestCase):
    CONFIG = {
        "current-context": "b",
        "contexts": [{"name": "b", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://here", "certificate-authority-data": "Q0E="}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }

    def login(self, config: object) -> object:
        with temporary_directory() as folder:
            path = os.path.join(folder, "config")
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(config) if not isinstance(config, str) else config)
            with mock.patch.dict(os.environ, {"KUBECONFIG": path}):
                return kopf.login_with_kubeconfig(settings=None)

    def test_kubeconfig(self) -> None:
        info = self.login(self.CONFIG)
        assert isinstance(info, kopf.ConnectionInfo)
        self.assertEqual((info.server, info.default_namespace, info.ca_data), ("https://here", "shop", "Q0E="))
        self.assertEqual(info.as_http_headers(), {"Authorization": "Bearer secret"})

    def test_broken_kubeconfigs(self) -> None:
        for config, message in (({"contexts": []}, "current-context"), ("[", "cannot read")):
            with self.subTest(message), self.assertRaisesRegex(kopf.LoginError, message):
                self.login(config)

    def test_outside_of_a_pod(self) -> None:
        self.assertIsNone(kopf.login_with_service_account(settings=None))

    def test_connection_info_is_checked(self) -> None:
        with self.assertRaisesRegex(ValueError, "ca_path and ca_data"):
            kopf.ConnectionInfo(server="x", ca_path="a", ca_data="b")
