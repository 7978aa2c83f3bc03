"""An ExchangeRate names a currency; the ConfigMap of its name has what a euro is worth in it."""

import os

import kopf
import kubernetes
import requests

GROUP, VERSION, PLURAL = "operators.brennerm.github.io", "v1", "exchangerates"
RATES = os.environ["RATES"]

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "ExchangeRate", "plural": PLURAL, "singular": "exchangerate", "shortNames": ["er"]},
        "versions": [{
            "name": VERSION,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {
                        "type": "object",
                        "required": ["currency"],
                        "properties": {"currency": {"type": "string", "pattern": "^[A-Z]{3}$"}},
                    },
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }},
        }],
    },
}


@kopf.on.startup()
def install_crd(logger, **_):
    """Creates the kind, and keeps the one that is there."""
    kubernetes.config.load_config()
    try:
        kubernetes.client.ApiextensionsV1Api().create_custom_resource_definition(CRD)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        logger.info("the kind is there")


def rate_of(currency):
    """Returns what a euro is worth in a currency, as text."""
    try:
        response = requests.get(f"{RATES}/latest", params={"symbols": currency}, timeout=5)
        response.raise_for_status()
        return str(response.json()["rates"][currency])
    except (requests.RequestException, KeyError, ValueError) as error:
        raise kopf.TemporaryError(f"no rate of {currency}: {error}", delay=2) from error


@kopf.on.create(GROUP, VERSION, PLURAL)
def on_create(spec, name, namespace, **_):
    currency = spec["currency"]
    config_map = {"metadata": {"name": name}, "data": {"currency": currency, "rate": rate_of(currency)}}
    kopf.adopt(config_map)
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, config_map)
    return {"currency": currency}


@kopf.on.update(GROUP, VERSION, PLURAL)
def on_update(spec, old, new, diff, name, namespace, logger, **_):
    if old["spec"] == new["spec"]:
        return
    logger.info("changed: %s", [(op, ".".join(field)) for op, field, _, _ in diff])
    write_rate(name, namespace, spec["currency"])


@kopf.timer(GROUP, VERSION, PLURAL, interval=float(os.environ.get("INTERVAL", 3600.0)), initial_delay=5)
def refresh(spec, name, namespace, **_):
    write_rate(name, namespace, spec["currency"])


def write_rate(name, namespace, currency):
    data = {"currency": currency, "rate": rate_of(currency)}
    kubernetes.client.CoreV1Api().patch_namespaced_config_map(name, namespace, {"data": data})
