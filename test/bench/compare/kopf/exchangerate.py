"""Keeps exchange rates in ConfigMaps: an ExchangeRate names a currency, and the
ConfigMap of its name has what a euro is worth in it."""

import datetime
import functools
import os

import kopf
import kubernetes
import requests

RATES = os.environ["RATES"]
KIND = ("operators.brennerm.github.io", "v1", "exchangerates")
HOUR = 3600


class RateUnknown(Exception):
    """The rate service did not say what a euro is worth."""


def ask(currency):
    """The rate of a currency, as the ConfigMap is to have it."""
    try:
        answer = requests.get(RATES + "/latest", params={"symbols": currency}, timeout=5)
        answer.raise_for_status()
        rates = answer.json()["rates"]
    except (requests.RequestException, KeyError, ValueError) as e:
        raise RateUnknown(f"ask the rate service for {currency}: {e}") from e
    if currency not in rates:
        raise RateUnknown(f"the rate service does not know {currency}")
    if not isinstance(rates[currency], (int, float)) or rates[currency] <= 0:
        raise RateUnknown(f"the rate service says that a euro is {rates[currency]} {currency}, which cannot be")
    return str(rates[currency])


@kopf.on.create(*KIND)
@kopf.on.update(*KIND, field="spec.currency")
@kopf.timer(*KIND, interval=HOUR, initial_delay=HOUR)
def publish(body, spec, status, patch, retry, **_):
    try:
        rate = ask(spec["currency"])
    except RateUnknown as e:
        tell(body, status, patch, "False", "RateUnknown", str(e))
        raise kopf.TemporaryError(str(e), delay=min(2 ** retry, 60)) from e
    write(body, {"rate": rate, "currency": spec["currency"]}, known="rate" in status)
    patch.status["rate"] = rate
    patch.status["currency"] = spec["currency"]
    tell(body, status, patch, "True", "Published", f"a euro is {rate} {spec['currency']}")


@functools.cache
def api():
    """The client, which Kopf has logged in by the time a handler is called."""
    return kubernetes.client.CoreV1Api()


def write(owner, data, known):
    """Creates the ConfigMap, or changes the one that is known to be there."""
    config_map = {"data": data, "metadata": {"name": owner["metadata"]["name"]}}
    kopf.adopt(config_map, owner=owner)
    name, namespace = config_map["metadata"]["name"], config_map["metadata"]["namespace"]
    try:
        if known:
            api().patch_namespaced_config_map(name, namespace, config_map)
        else:
            api().create_namespaced_config_map(namespace, config_map)
    except kubernetes.client.ApiException as e:
        if e.status == 409:
            api().patch_namespaced_config_map(name, namespace, config_map)
        elif e.status == 404:
            api().create_namespaced_config_map(namespace, config_map)
        else:
            raise


def tell(body, status, patch, well, reason, message):
    """Says in a condition, and in an event when it is news, how it went."""
    before = next((c for c in status.get("conditions", []) if c["type"] == "Handled"), {})
    if (before.get("status"), before.get("message")) == (well, message):
        return
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    patch.status["conditions"] = [{
        "type": "Handled", "status": well, "reason": reason, "message": message,
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == well else now,
        "observedGeneration": body["metadata"]["generation"],
    }]
    kopf.event(body, type="Normal" if well == "True" else "Warning", reason=reason, message=message)
