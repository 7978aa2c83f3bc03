"""The hooks of the ConfigMapPropagation controller.

A ConfigMapPropagation names a ConfigMap and selects namespaces. Setpoint asks
customize which objects matter to it, and then posts it with these and with the
copies there are; the answer of sync is the copies there should be. Python's
standard library is all it needs.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def customize(request):
    """Answer which objects sync needs to see: the source and the selected namespaces."""
    spec = request["parent"]["spec"]
    return {
        "relatedResources": [
            {
                "apiVersion": "v1",
                "resource": "configmaps",
                "namespace": spec["source"]["namespace"],
                "names": [spec["source"]["name"]],
            },
            {
                "apiVersion": "v1",
                "resource": "namespaces",
                "labelSelector": spec["namespaceSelector"],
            },
        ]
    }


def sync(request):
    """Answer which copies there should be."""
    origin = request["parent"]["spec"]["source"]["namespace"]
    sources = list(request["related"]["ConfigMap.v1"].values())
    namespaces = request["related"]["Namespace.v1"].values()
    return {
        "status": {
            "sourceFound": bool(sources),
            "copies": len(request["children"]["ConfigMap.v1"]),
        },
        "children": [
            copy(source, namespace["metadata"]["name"])
            for source in sources
            for namespace in namespaces
            if namespace["metadata"]["name"] != origin and not is_leaving(namespace)
        ],
    }


def is_leaving(item):
    return "deletionTimestamp" in item["metadata"]


def copy(source, namespace):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": source["metadata"]["name"], "namespace": namespace},
        **{field: source[field] for field in ("data", "binaryData") if field in source},
    }


HOOKS = {"/customize": customize, "/sync": sync}


class Hook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept and used again
    wbufsize = -1  # a reply leaves in one piece, headers and body together

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True  # where the next request begins is unknown
            return self.reply(411, {"error": "the request needs a Content-Length"})
        body = self.rfile.read(int(length))
        if self.path not in HOOKS:
            return self.reply(404, {"error": "no hook at %s, only at %s" % (self.path, ", ".join(HOOKS))})
        try:
            answer = HOOKS[self.path](json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            message = "not a request for %s: %s: %s" % (self.path, type(problem).__name__, problem)
            self.log_error("%s", message)
            return self.reply(400, {"error": message})
        self.reply(200, answer)

    def log_request(self, code="-", size="-"):
        if code != 200:  # what goes well is not worth a line
            super().log_request(code, size)

    def reply(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # many objects may be asked about at once


def main():
    # In a container this is process 1, which signals end only with a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port = int(os.environ.get("PORT", "80"))
    with Server((os.environ.get("HOST", ""), port), Hook) as server:
        print("answering on port %d" % server.server_port, file=sys.stderr, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
