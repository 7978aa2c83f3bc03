"""The hooks of the image-policy controller.

Before a pod is stored, Setpoint posts the change to /labels, whose answer may add
to the pod, and then to /images, whose answer is whether it may run. Python's
standard library is all it needs.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def labels(request):
    """Answer which label the pod lacks."""
    if "team" in request["object"]["metadata"].get("labels", {}):
        return {"allowed": True}
    return {"allowed": True, "patch": {"metadata": {"labels": {"team": "unassigned"}}}}


def images(request):
    """Answer whether it is known what the pod's images are, today and tomorrow."""
    # What has been stored before stays: a pod must not get stuck for what it has always been.
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
    """The pod's images, and where in it they stand."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(pod["spec"].get(field, [])):
            yield "spec.%s[%d].image" % (field, i), container["image"]


def fault(image):
    """What is wrong with a reference to an image; None if nothing is."""
    if "@" in image:
        return None  # a digest says exactly which one
    name = image.rpartition("/")[2]  # the colon of registry:5000/nginx is that of a port
    tag = name.partition(":")[2]
    if not tag:
        return "has no tag"
    if tag == "latest":
        return "has the tag latest, which will be another image tomorrow"
    return None


HOOKS = {"/labels": labels, "/images": images}


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
    request_queue_size = 128  # many pods may be asked about at once


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
