"""Publishes an ExchangeRate as a ConfigMap of its name, with the rate of a euro in its
currency."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

RATES = os.environ["RATES"]


class RateUnknown(Exception):
    """The rate service returned no valid rate."""


def get_rate(currency):
    """Return the rate of a currency, as text for the ConfigMap."""
    try:
        with urlopen(RATES + "/latest?" + urlencode({"symbols": currency}), timeout=5) as response:
            rates = json.load(response)["rates"]
    except (URLError, TimeoutError, KeyError, ValueError) as e:
        raise RateUnknown(f"request the rate of {currency}: {e}") from e
    if currency not in rates:
        raise RateUnknown(f"the rate service has no rate of {currency}")
    if not isinstance(rates[currency], (int, float)) or rates[currency] <= 0:
        raise RateUnknown(f"the rate service returned an invalid rate: {rates[currency]} {currency}")
    return str(rates[currency])


def publish(request):
    currency = request["object"]["spec"]["currency"]
    try:
        status = {"rate": get_rate(currency), "currency": currency}
    except RateUnknown as e:
        return {"error": {"message": str(e)}}
    message = f"a euro is {status['rate']} {currency}"
    before = request["object"].get("status", {})
    changed = (before.get("rate"), before.get("currency")) != (status["rate"], currency)
    return {
        "apply": [config_map(request, status)],
        "status": status,
        "conditions": [{"type": "Published", "status": "True", "reason": "Published", "message": message}],
        "events": [{"type": "Normal", "reason": "Published", "message": message}] if changed else [],
    }


def restore(request):
    """Restore the last good rate, even if the rate service fails."""
    status = request["object"].get("status", {})
    if "rate" not in status:
        return {}
    return {"apply": [config_map(request, {"rate": status["rate"], "currency": status["currency"]})]}


def config_map(request, data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": request["object"]["metadata"]["name"]}, "data": data}


class Hook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # sends headers and body together

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"/publish": publish, "/restore": restore}[self.path](request)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    host, _, port = os.environ.get("ADDRESS", ":80").rpartition(":")
    ThreadingHTTPServer((host, int(port)), Hook).serve_forever()
