"""The server: HTTP, its limits, streams, and the life of the process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import unittest
from typing import Any

from setpoint._serve import http, loading
from setpoint._serve.guard import Endpoint, refusal
from setpoint._serve.message import NotJSON, Request, Response, encode, respond
from setpoint._serve.watchdog import Watchdog
from tests.harness import example, temporary_directory

# As Setpoint starts it: -m would search the folder with operator.py before the standard library.
START = "import sys; del sys.path[0]; from setpoint._command import main; sys.exit(main(sys.argv[1:]))"
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Encoding(unittest.TestCase):
    def test_tuples_and_mappings(self) -> None:
        self.assertEqual(encode({"a": (1, 2), "b": None}), b'{"a":[1,2],"b":null}')

    def test_faults_are_named(self) -> None:
        for value, message in (
            ({"a": [{"b": object()}]}, r"a\[0\]\.b: .* is object"),
            (float("inf"), "value: inf is not a finite number"),
            ({"a": {None, 1}}, "a: .* is set"),
            ({"a": "\ud800"}, "a: .* is not valid Unicode"),
        ):
            with self.subTest(message), self.assertRaisesRegex(NotJSON, message):
                encode(value)


class Connections(unittest.TestCase):
    """Talks to a server byte by byte."""

    def exchange(self, *parts: bytes) -> bytes:
        async def handle(request: Request) -> Response:
            if request.path == "/fail":
                raise ValueError("odd")
            if request.path == "/cancelled":
                raise asyncio.CancelledError
            return respond({"path": request.path, "length": len(request.body)})

        async def run() -> bytes:
            connections: set[http.Connection] = set()
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: http.Connection(handle, connections, "abc"), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            received = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            server.close()
            return received

        return asyncio.run(run())

    def test_requests_of_one_connection(self) -> None:
        request = b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
        last = b"GET /b?x=1 HTTP/1.1\r\nConnection: close\r\n\r\n"
        received = self.exchange(request + request, last)
        self.assertEqual(received.count(b"HTTP/1.1 200 OK"), 3)
        self.assertEqual(received.count(b'{"path":"/a","length":2}'), 2)

    def test_responses_name_the_code(self) -> None:
        for path in (b"/a", b"/fail"):
            self.assertIn(b"\r\nSetpoint-Code: abc\r\n", self.exchange(b"GET " + path + b" HTTP/1.1\r\nConnection: close\r\n\r\n"))

    def test_the_code_is_that_of_the_authors_modules(self) -> None:
        digests = []
        with temporary_directory() as folder:
            for name, text in (("one_unit", "x = 1"), ("two_unit", "x = 1"), ("two_unit", "x = 2")):
                path = os.path.join(folder, name + ".py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                loading.load([path], [])
                digests.append(loading.digest())
            self.assertEqual(digests[-1], loading.digest())
        self.assertEqual(3, len(set(digests)))

    def test_a_request_in_pieces(self) -> None:
        whole = b"POST /a HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
        received = self.exchange(*(whole[i : i + 1] for i in range(len(whole))))
        self.assertIn(b'"length":5', received)

    def test_errors_are_responses(self) -> None:
        received = self.exchange(b"GET /fail HTTP/1.1\r\nConnection: close\r\n\r\n")
        self.assertIn(b"500 Internal Server Error", received)
        self.assertIn(b"ValueError: odd", received)
        self.assertIn(b"500", self.exchange(b"GET /cancelled HTTP/1.1\r\nConnection: close\r\n\r\n"))

    def test_what_is_no_request_is_refused(self) -> None:
        cases = [
            (b"nonsense\r\n\r\n", b"400 Bad Request"),
            (b"GET / HTTP/2\r\n\r\n", b"400 Bad Request"),
            (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400 Bad Request"),
            (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400 Bad Request"),
            (b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"413 "),
            (b"GET / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413 "),
            (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"411 Length Required"),
            (b"GET / HTTP/1.1\r\nA: " + b"x" * (80 << 10), b"431 "),
        ]
        for sent, expected in cases:
            with self.subTest(sent[:60]):
                self.assertIn(expected, self.exchange(sent))


class Guard(unittest.TestCase):
    """Who may run handlers over a port."""

    ENDPOINT = Endpoint(host="127.0.0.1", port=8000, token="s3cret")
    SETPOINT = {"host": "127.0.0.1:8000", "content-type": "application/json", "authorization": "Bearer s3cret"}

    def status(self, method: str = "POST", endpoint: Endpoint = ENDPOINT, **headers: str) -> int:
        given = {**self.SETPOINT, **{name.replace("_", "-"): value for name, value in headers.items()}}
        given = {name: value for name, value in given.items() if value}
        response = refusal(Request(method, "/handlers/a", given, b"{}"), endpoint)
        return response.status if response else 200

    def test_setpoint_is_served(self) -> None:
        for host in ("127.0.0.1:8000", "localhost:8000", "localhost", "[::1]:8000", "127.0.0.1"):
            self.assertEqual(self.status(host=host), 200, host)
        self.assertEqual(self.status(content_type="application/json; charset=utf-8"), 200)
        self.assertEqual(self.status("GET", content_type=""), 200)

    def test_others_are_refused(self) -> None:
        for host in ("evil.example", "evil.example:8000", "localhost.evil.example", "", "[::1", "169.254.169.254"):
            self.assertEqual(self.status(host=host), 403, host)
        self.assertEqual(self.status(origin="http://127.0.0.1:8000"), 403)
        for content in ("text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"):
            self.assertEqual(self.status(content_type=content), 415, content)
        for token in ("", "Bearer", "Bearer other", "bearer s3cret", "Basic s3cret", "Bearer s3cr\xe9t"):
            self.assertEqual(self.status(authorization=token), 401, token)
            self.assertEqual(self.status("GET", authorization=token), 401, token)

    def test_an_address_of_the_network_has_any_name(self) -> None:
        everywhere = Endpoint(host="0.0.0.0", port=8000, token="s3cret")
        self.assertEqual(self.status(endpoint=everywhere, host="rates.shop:8000"), 200)
        self.assertEqual(self.status(endpoint=everywhere, host="rates.shop:8000", authorization=""), 401)

    def test_no_token_is_no_way_in(self) -> None:
        self.assertEqual(self.status(endpoint=Endpoint(port=8000), authorization="Bearer "), 401)

    def test_a_socket_has_the_permissions_of_its_file(self) -> None:
        self.assertIsNone(refusal(Request("POST", "/handlers/a"), Endpoint(socket="/run/s")))

    def test_the_token_is_not_printed(self) -> None:
        self.assertNotIn("s3cret", repr(self.ENDPOINT) + str(self.ENDPOINT))


class Blocking(unittest.TestCase):
    def test_a_handler_that_blocks_the_loop_is_named(self) -> None:
        async def block() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.set_name("Handler 'blocker'")
            deadline = time.monotonic() + 60
            while not logs.output and time.monotonic() < deadline:
                time.sleep(0.01)

        async def run() -> None:
            with Watchdog(asyncio.get_running_loop(), limit=0.05):
                await asyncio.get_running_loop().create_task(block())

        with self.assertLogs("setpoint", "WARNING") as logs:
            asyncio.run(run())
        self.assertRegex(logs.output[0], r"(?s)Handler 'blocker' has blocked the event loop.*time\.sleep")


class Process(unittest.TestCase):
    """Starts `python -m setpoint serve` as Setpoint does."""

    def setUp(self) -> None:
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.folder = directory.name
        self.socket = os.path.join(self.folder, "s")

    def start(self, source: str, *arguments: str, name: str = "operator.py") -> subprocess.Popen[str]:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(source))
        process = subprocess.Popen(
            [sys.executable, "-c", START, "serve", "--socket", self.socket, *arguments, path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": PACKAGE}, cwd=self.folder,
        )
        self.addCleanup(self._end, process)
        return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.kill()
        process.communicate()

    def request(self, process: subprocess.Popen[str], method: str, path: str, body: Any = None) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        with self.connect(process) as connection:
            head = f"{method} {path} HTTP/1.1\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode() + data)
            received = b"".join(iter(lambda: connection.recv(65536), b""))
        return json.loads(received.partition(b"\r\n\r\n")[2])

    def connect(self, process: subprocess.Popen[str]) -> socket.socket:
        deadline = time.monotonic() + 60
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self.socket)
                return connection
            except OSError:
                connection.close()
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(process.communicate()[1]) from None
                time.sleep(0.02)

    def fails(self, source: str, code: int, *messages: str, name: str = "operator.py") -> None:
        process = self.start(source, name=name)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, stderr)
        for message in messages:
            self.assertIn(message, stderr)

    def test_calls_and_the_end_of_the_parent(self) -> None:
        process = self.start("""
            import kopf
            @kopf.on.create('examples')
            def fn(**_):
                print('called', flush=True)
            @kopf.on.cleanup()
            def cleanup(**_):
                print('cleaned up', flush=True)
        """)
        declaration = self.request(process, "GET", "/declaration")
        self.assertEqual(declaration["name"], "operator")
        url = declaration["controllers"][0]["spec"]["handlers"][0]["webhook"]["url"]
        self.assertEqual(self.request(process, "POST", url, {"reason": "Create", "object": example()}), {})
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual((process.returncode, stdout), (0, "called\ncleaned up\n"), stderr)
        self.assertFalse(os.path.exists(self.socket))

    def test_a_port_needs_a_token(self) -> None:
        path = os.path.join(self.folder, "token")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n")
        for arguments, message in (
            ([], "--listen needs --token-file"),
            (["--token-file", path], "the file is empty"),
            (["--token-file", path + "s"], "No such file"),
        ):
            process = subprocess.run(
                [sys.executable, "-c", START, "serve", "--listen", "127.0.0.1:0", *arguments, "operator.py"],
                capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": PACKAGE}, cwd=self.folder,
            )
            self.assertEqual(process.returncode, 1, process.stderr)
            self.assertIn(message, process.stderr)

    def test_a_signal_lets_calls_end(self) -> None:
        process = self.start("""
            import kopf, time
            @kopf.on.create('examples')
            def fn(**_):
                print('started', flush=True)
                time.sleep(0.5)
                return 1
        """)
        url = self.request(process, "GET", "/declaration")["controllers"][0]["spec"]["handlers"][0]["webhook"]["url"]
        body = json.dumps({"reason": "Create", "object": example()}).encode()
        with self.connect(process) as connection:
            connection.sendall(f"POST {url} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            self.assertIn(b'{"status":{"fn":1}}', connection.recv(65536))
        self.assertEqual(process.wait(60), 0)

    def test_a_signal_ends_a_start_that_is_retried(self) -> None:
        for kind in ("", "async "):
            process = self.start(f"""
                import kopf, asyncio
                @kopf.on.startup(backoff=0.01)
                {kind}def start(**_):
                    print('tried', flush=True)
                    raise ValueError
            """)
            with self.subTest(kind):
                assert process.stdout is not None
                process.stdout.readline()
                process.send_signal(signal.SIGTERM)
                _, stderr = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 0, stderr)

    def test_threads_that_are_left_do_not_keep_the_process(self) -> None:
        process = self.start("""
            import kopf, threading, time
            @kopf.on.startup()
            def start(**_):
                threading.Thread(target=time.sleep, args=(3600,), name='forgotten').start()
        """)
        self.request(process, "GET", "/declaration")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertIn("forgotten", stderr)

    def test_import_errors(self) -> None:
        self.fails("import kopf\n@kopf.on.create('x'\ndef fn(): ...", 3, "operator.py", "SyntaxError")
        self.fails("import kopf\n\ndef broken():\n    return 1 / 0\n\nbroken()", 3, "operator.py\", line 4", "ZeroDivisionError")
        self.fails("import sys\nsys.exit(7)", 3, "sys.exit(7)")
        self.fails("import no_such_module", 3, "No module named 'no_such_module'", f"The interpreter is {sys.executable}")
        self.fails("import kopf\n@kopf.on.create('x', labels={'a': None})\ndef fn(**_): ...", 3, "operator.py\", line", "labels= a")

    def test_import_errors_do_not_show_our_own_lines(self) -> None:
        for source in ("1 / 0", "import kopf\n@kopf.on.create('x', labels={'a': None})\ndef fn(**_): ..."):
            stderr = self.start(source).communicate(timeout=60)[1]
            self.assertIn("operator.py\", line", stderr)
            self.assertNotIn("setpoint" + os.sep, stderr)

    def test_names_of_modules(self) -> None:
        source = "import logging, dataclasses, sys\nlogging.getLogger(__name__).warning('named %s', sys.modules[__name__].__file__)"
        again = os.path.join(self.folder, "b", "rates.py")
        os.mkdir(os.path.dirname(again))
        with open(again, "w", encoding="utf-8") as file:
            file.write(source)
        for name, expected, more in (
            ("rates.py", "rates ", [again]), ("operator.py", "operator_py ", []), ("queue.py", "queue_py", []), ("my-op.v1.py", "my-op_v1 ", []),
        ):
            with self.subTest(name):
                process = self.start(source + "\n", *more, name=name)
                self.request(process, "GET", "/declaration")
                process.terminate()
                stderr = process.communicate(timeout=60)[1]
                self.assertIn(f" {expected}", stderr)
                if more:
                    self.assertIn(" rates_py ", stderr)

    def test_names_of_kopf_that_are_missing_are_no_matter_of_the_interpreter(self) -> None:
        for source, named in (
            ("import kopf.structs", "No module named 'kopf.structs'"),
            ("from kopf._cogs.clients import patching", "No module named 'kopf._cogs.clients'"),
            ("from kopf._cogs.structs.credentials import Vault", "cannot import name 'Vault' from 'kopf._cogs.structs.credentials'"),
            ("import kopf\nkopf._core.engines.indexing.OperatorIndexers", "kopf._core.engines.indexing has no OperatorIndexers here"),
        ):
            with self.subTest(source):
                stderr = self.start(source).communicate(timeout=60)[1]
                self.assertIn(named, stderr)
                self.assertIn("public names of Kopf and its types, not its engine", stderr)
                self.assertIn('operator.py", line', stderr)
                self.assertNotIn("The interpreter", stderr)

    def test_start_errors(self) -> None:
        self.fails(
            "import kopf\n@kopf.on.create('x')\ndef fn(**_): ...\n@kopf.on.create('x')\ndef fn(**_): ...", 3,
            "two handlers have the id 'fn'", "operator.py:2", "operator.py:4",
        )
        self.fails("import kopf\n@kopf.on.startup()\ndef fn(**_): raise kopf.PermanentError('no database')", 1, "no database")

    def test_functions_that_cannot_take_all_arguments(self) -> None:
        self.fails("import kopf\n@kopf.on.create('x')\ndef fn(spec): ...", 3, "operator.py\", line", "fn must accept all arguments", "add **_")

    def test_relative_imports_and_files_beside(self) -> None:
        for name, text in (("package/__init__.py", ""), ("package/names.py", "KIND = 'examples'"), ("beside.py", "X = 1")):
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        source = """
            import kopf
            from .names import KIND
            @kopf.on.create(KIND)
            def fn(**_): ...
        """
        process = self.start(source, name="package/main.py")
        self.assertEqual(self.request(process, "GET", "/declaration")["controllers"][0]["selectors"], [{"name": "examples"}])

    def test_packages_named_like_standard_modules(self) -> None:
        # operator is imported before any file, shelve is not, and time is built in.
        for package in ("operator", "shelve", "time"):
            with self.subTest(package):
                os.makedirs(os.path.join(self.folder, package))
                for name, text in (("__init__.py", ""), ("names.py", "KIND = 'examples'"), ("beside.py", "X = 1")):
                    with open(os.path.join(self.folder, package, name), "w", encoding="utf-8") as file:
                        file.write(text)
                second = os.path.join(self.folder, package, "names.py")
                process = self.start(f"""
                    import shelve, kopf
                    import {package} as standard
                    import beside
                    from .names import KIND
                    assert not hasattr(standard, "names"), standard
                    assert shelve.open
                    @kopf.on.create(KIND)
                    def fn(**_): ...
                """, second, name=f"{package}/main.py")
                self.assertEqual(self.request(process, "GET", "/declaration")["controllers"][0]["selectors"], [{"name": "examples"}])
                process.kill()
                process.wait()

    def test_a_description_calls_no_handler(self) -> None:
        process = self.start("""
            import kopf
            @kopf.on.startup()
            @kopf.on.cleanup()
            def never(**_): raise AssertionError
            @kopf.on.startup()
            def configure(settings, **_): settings.persistence.finalizer = 'example.com/done'
            @kopf.on.create('examples')
            def fn(**_): raise AssertionError
        """, "--describe")
        declaration = self.request(process, "GET", "/declaration")
        self.assertRegex(" ".join(declaration["unsetBy"]), r"^configure \(.*operator.py:\d+\)$")
        url = declaration["controllers"][0]["spec"]["handlers"][0]["webhook"]["url"]
        planned = self.request(process, "POST", url, {"reason": "Create", "object": {"metadata": {}}, "dryRun": True})
        self.assertEqual(planned, {"message": "Handler 'fn' would be called; a handler of Kopf has no dry run"})
        process.terminate()
        self.assertNotIn("Error", process.communicate(timeout=60)[1])

    def test_a_socket_of_a_killed_process_is_replaced_and_a_file_is_not(self) -> None:
        former = socket.socket(socket.AF_UNIX)
        former.bind(self.socket)
        former.close()
        process = self.start("import kopf")
        self.assertEqual(self.request(process, "GET", "/declaration")["controllers"], [])
        process.kill()
        process.wait()
        os.unlink(self.socket)
        with open(self.socket, "w", encoding="utf-8") as file:
            file.write("precious")
        self.fails("import kopf", 1, "error:")
        with open(self.socket, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")

