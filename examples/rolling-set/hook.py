"""The sync hook of the RollingSet controller.

A RollingSet has numbered pods, like a StatefulSet. Setpoint posts a RollingSet
and its pods; the response has the desired pods and status. Setpoint decides when
a rolling update replaces which pod. The hook needs only Python's standard
library.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def sync(request):
    """Return the desired state for the observed state."""
    parent = request["parent"]
    pods = {ordinal(pod): pod for pod in request["children"]["Pod.v1"].values()}
    replicas = parent["spec"]["replicas"]

    # A missing pod waits until all before it are ready, and a surplus pod until
    # all after it are deleted.
    desired, ready = [], 0
    for number in range(max(replicas, max(pods, default=0))):
        if number in pods or ready == number:
            desired.append(make_pod(parent, number))
        ready += is_ready(pods.get(number))

    return {
        "status": {
            "replicas": len(pods),
            "readyReplicas": sum(is_ready(pod) for pod in pods.values()),
        },
        # A rolling update uses this order: from the last pod to the first.
        "children": desired[::-1],
    }


def ordinal(pod):
    return int(pod["metadata"]["name"].rpartition("-")[2])


def is_ready(pod):
    if not pod or "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def make_pod(parent, number):
    template = parent["spec"]["template"]
    metadata = template.get("metadata", {})
    name = "%s-%d" % (parent["metadata"]["name"], number)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**metadata.get("labels", {}), "apps.kubernetes.io/pod-index": str(number)},
            "annotations": metadata.get("annotations", {}),
        },
        "spec": {**template["spec"], "hostname": name},
    }


class Hook(BaseHTTPRequestHandler):
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
