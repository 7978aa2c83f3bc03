"""A stand-in for the package setpoint: the first file has a variable `declaration`."""

import http.server
import json
import os
import socketserver
import sys
import threading

arguments = sys.argv[1:]
arguments.pop(0)
socket = None
files = []
while arguments:
    word = arguments.pop(0)
    if word == "--socket":
        socket = arguments.pop(0)
    elif not word.startswith("-"):
        files.append(word)

names = {}
exec(compile(open(files[0]).read(), files[0], "exec"), names)
declaration = json.dumps(names["declaration"])

class Handler(http.server.BaseHTTPRequestHandler):
    def address_string(self):
        return "socket"

    def do_GET(self):
        body = declaration if self.path == "/declaration" else json.dumps({"folder": os.path.dirname(socket)})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def end_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
with socketserver.ThreadingUnixStreamServer(socket, Handler) as server:
    server.serve_forever()
