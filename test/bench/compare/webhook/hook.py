"""Says what becomes of an ExchangeRate: a ConfigMap of its name, with what a euro is
worth in its currency."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

RATES = os.environ["RATES"]


class RateUnknown(Exception):
    """The rate service did not say what a euro is worth."""


def ask(currency):
    """The rate of a currency, as the ConfigMap is to have it."""
    try:
        with urlopen(RATES + "/latest?" + urlencode({"symbols": currency}), timeout=5) as answer:
            rates = json.load(answer)["rates"]
    except (URLError, TimeoutError, KeyError, ValueError) as e:
        raise RateUnknown(f"ask the rate service for {currency}: {e}") from e
    if currency not in rates:
        raise RateUnknown(f"the rate service does not know {currency}")
    if not isinstance(rates[currency], (int, float)) or rates[currency] <= 0:
        raise RateUnknown(f"the rate service says that a euro is {rates[currency]} {currency}, which cannot be")
    return str(rates[currency])


def publish(told):
    currency = told["object"]["spec"]["currency"]
    try:
        now = {"rate": ask(currency), "currency": currency}
    except RateUnknown as e:
        return {"error": {"message": str(e)}}
    message = f"a euro is {now['rate']} {currency}"
    before = told["object"].get("status", {})
    news = (before.get("rate"), before.get("currency")) != (now["rate"], currency)
    return {
        "apply": [config_map(told, now)],
        "status": now,
        "conditions": [{"type": "Published", "status": "True", "reason": "Published", "message": message}],
        "events": [{"type": "Normal", "reason": "Published", "message": message}] if news else [],
    }


def restore(told):
    """The last good rate comes back, whether the service answers or not."""
    status = told["object"].get("status", {})
    if "rate" not in status:
        return {}
    return {"apply": [config_map(told, {"rate": status["rate"], "currency": status["currency"]})]}


def config_map(told, data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": told["object"]["metadata"]["name"]}, "data": data}


class Hook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together

    def do_POST(self):
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"/publish": publish, "/restore": restore}[self.path](told)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    host, _, port = os.environ.get("ADDRESS", ":80").rpartition(":")
    ThreadingHTTPServer((host, int(port)), Hook).serve_forever()
