"""The hooks of the image-policy controller.

Before the API server stores a pod, Setpoint posts the change to /labels, which
may patch the pod, and then to /images, which allows or denies it. The hooks need
only Python's standard library.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def labels(request):
    """Add a missing team label."""
    if "team" in request["object"]["metadata"].get("labels", {}):
        return {"allowed": True}
    return {"allowed": True, "patch": {"metadata": {"labels": {"team": "unassigned"}}}}


def images(request):
    """Deny images whose content may change."""
    # Images that the pod already has are allowed, so that it can be updated.
    stored = {image for _, image in images_of(request["oldObject"])} if request["oldObject"] else set()
    faults = [
        "%s: %s %s" % (path, image, fault(image))
        for path, image in images_of(request["object"])
        if fault(image) and image not in stored
    ]
    if not faults:
        return {"allowed": True}
    return {"allowed": False, "message": "; ".join(faults) + ": name a version, such as nginx:1.28, or a digest"}


def images_of(pod):
    """Yield the path and name of each image of the pod."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(pod["spec"].get(field, [])):
            yield "spec.%s[%d].image" % (field, i), container["image"]


def fault(image):
    """Return what is wrong with an image reference, or None."""
    if "@" in image:
        return None  # a digest identifies one image
    name = image.rpartition("/")[2]  # in registry:5000/nginx, the colon precedes a port
    tag = name.partition(":")[2]
    if not tag:
        return "has no tag"
    if tag == "latest":
        return "has the tag latest, which will be another image tomorrow"
    return None


HOOKS = {"/labels": labels, "/images": images}


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
    request_queue_size = 128  # Setpoint calls the hook for many pods at once


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
