"""The sync hook of the ImmortalContainer controller.

Setpoint posts an ImmortalContainer and its pods; the response has the desired
pods and status. The hook needs only Python's standard library.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FINISHED = ("Succeeded", "Failed")


def sync(request):
    """Return the desired state for the observed state."""
    parent = request["parent"]
    name = parent["metadata"]["name"] + "-immortalpod"
    observed = request["children"]["Pod.v1"].get(name)

    # The response omits a finished pod, so Setpoint deletes it. The deletion
    # triggers another call, now without a pod: the response has a new one.
    finished = bool(observed) and observed.get("status", {}).get("phase") in FINISHED
    return {
        "status": {"currentPod": name if observed and not finished else ""},
        "children": [] if finished else [pod(name, parent["spec"]["image"])],
    }


def pod(name, image):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [{"name": "immortal", "image": image}],
        },
    }


class Hook(BaseHTTPRequestHandler):
    """Serves sync over HTTP: JSON in, JSON out."""

    protocol_version = "HTTP/1.1"  # keeps connections open
    wbufsize = -1  # sends headers and body together

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True  # the start of the next request is unknown
            return self.respond(411, {"error": "the request needs a Content-Length"})
        body = self.rfile.read(int(length))
        if self.path != "/sync":
            return self.respond(404, {"error": "no hook at " + self.path + ", only at /sync"})
        try:
            response = sync(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            message = "not a sync request: %s: %s" % (type(problem).__name__, problem)
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
