"""The hooks of the ConfigMapPropagation controller.

A ConfigMapPropagation names a ConfigMap and selects namespaces. Setpoint calls
customize, which selects the related objects, and then posts these and the
existing copies to sync, which returns the desired copies. The hooks need only
Python's standard library.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def customize(request):
    """Select the related objects: the source and the namespaces."""
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
    """Return the desired copies."""
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
            if namespace["metadata"]["name"] != origin and not is_terminating(namespace)
        ],
    }


def is_terminating(item):
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
    protocol_version = "HTTP/1.1"  # keeps connections open
    wbufsize = -1  # sends headers and body together

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True  # the start of the next request is unknown
            return self.respond(411, {"error": "the request needs a Content-Length"})
        body = self.rfile.read(int(length))
        if self.path not in HOOKS:
            return self.respond(404, {"error": "no hook at %s, only at %s" % (self.path, ", ".join(HOOKS))})
        try:
            response = HOOKS[self.path](json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            message = "not a request for %s: %s: %s" % (self.path, type(problem).__name__, problem)
            self.log_error("%s", message)
            return self.respond(400, {"error": message})
        self.respond(200, response)

    def log_request(self, code="-", size="-"):
        if code != 200:  # log failures only
            super().log_request(code, size)

    def respond(self, status, response):
        body = json.dumps(response).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # Setpoint calls the hook for many objects at once


def main():
    # Process 1 of a container ignores SIGTERM unless it has a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port = int(os.environ.get("PORT", "80"))
    with Server((os.environ.get("HOST", ""), port), Hook) as server:
        print("listening on port %d" % server.server_port, file=sys.stderr, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
