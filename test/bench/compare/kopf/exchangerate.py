"""Stores exchange rates in ConfigMaps: an ExchangeRate names a currency, and the
ConfigMap of its name has the rate of a euro in it."""

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
    """The rate service returned no valid rate."""


def get_rate(currency):
    """Return the rate of a currency, as text for the ConfigMap."""
    try:
        response = requests.get(RATES + "/latest", params={"symbols": currency}, timeout=5)
        response.raise_for_status()
        rates = response.json()["rates"]
    except (requests.RequestException, KeyError, ValueError) as e:
        raise RateUnknown(f"request the rate of {currency}: {e}") from e
    if currency not in rates:
        raise RateUnknown(f"the rate service has no rate of {currency}")
    if not isinstance(rates[currency], (int, float)) or rates[currency] <= 0:
        raise RateUnknown(f"the rate service returned an invalid rate: {rates[currency]} {currency}")
    return str(rates[currency])


@kopf.on.create(*KIND)
@kopf.on.update(*KIND, field="spec.currency")
@kopf.timer(*KIND, interval=HOUR, initial_delay=HOUR)
def publish(body, spec, status, patch, retry, **_):
    try:
        rate = get_rate(spec["currency"])
    except RateUnknown as e:
        report(body, status, patch, "False", "RateUnknown", str(e))
        raise kopf.TemporaryError(str(e), delay=min(2 ** retry, 60)) from e
    write(body, {"rate": rate, "currency": spec["currency"]}, known="rate" in status)
    patch.status["rate"] = rate
    patch.status["currency"] = spec["currency"]
    report(body, status, patch, "True", "Published", f"a euro is {rate} {spec['currency']}")


@functools.cache
def api():
    """Return the client. Kopf logs in before it calls a handler."""
    return kubernetes.client.CoreV1Api()


def write(owner, data, known):
    """Create the ConfigMap, or change the existing one."""
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


def report(body, status, patch, handled, reason, message):
    """Set the condition, and emit an event if it changed."""
    before = next((c for c in status.get("conditions", []) if c["type"] == "Handled"), {})
    if (before.get("status"), before.get("message")) == (handled, message):
        return
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    patch.status["conditions"] = [{
        "type": "Handled", "status": handled, "reason": reason, "message": message,
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == handled else now,
        "observedGeneration": body["metadata"]["generation"],
    }]
    kopf.event(body, type="Normal" if handled == "True" else "Warning", reason=reason, message=message)
