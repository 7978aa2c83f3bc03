"""The sync hook of the ImmortalContainer controller.

Setpoint posts an ImmortalContainer and the pods it has; the answer is the pods
it should have, and its status. Python's standard library is all it needs.
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

    # A finished pod is left out of the answer, which deletes it. The deletion
    # brings the same question again, now without a pod: the answer is a new one.
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
    """Carries sync over HTTP: JSON in, JSON out."""

    protocol_version = "HTTP/1.1"  # connections are kept and used again
    wbufsize = -1  # a reply leaves in one piece, headers and body together

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True  # where the next request begins is unknown
            return self.reply(411, {"error": "the request needs a Content-Length"})
        body = self.rfile.read(int(length))
        if self.path != "/sync":
            return self.reply(404, {"error": "no hook at " + self.path + ", only at /sync"})
        try:
            answer = sync(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            message = "not a sync request: %s: %s" % (type(problem).__name__, problem)
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
