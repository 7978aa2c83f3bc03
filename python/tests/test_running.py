"""The command line of Kopf, and operators in other programs. A script stands for the binary of Setpoint."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
import textwrap
import threading
import unittest
from collections.abc import Iterator
from typing import Optional
from unittest import mock

from setpoint import kopf
from setpoint.kopf import _binary, _cli
from setpoint.kopf._binary import NoBinary
from tests.harness import temporary_directory

# Connects as Setpoint does, and stays until it is terminated; or fails at once.
BINARY = f"""\
    #!{sys.executable}
    import os, socket, sys
    print(sys.argv[1:], file=open(os.environ["CALLED"], "w"))
    if os.environ.get("FAIL"):
        sys.exit(4)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[sys.argv.index("--operator") + 1].removeprefix("unix://"))
    connection.sendall(b"GET /notifications HTTP/1.1\\r\\n\\r\\n")
    while connection.recv(1000):
        pass
"""


class CommandLine(unittest.TestCase):
    def arguments(self, *given: str, **environment: str) -> list[str]:
        with mock.patch.dict(os.environ, environment):
            arguments = _cli.setpoint_arguments(_cli._parser().parse_args(["run", *given]))[3:]
        return [argument for argument in arguments if argument != "--address="]

    def test_flags_of_kopf(self) -> None:
        cases = [
            (["a.py"], ["--python", "a.py"]),
            (["a.py", "b.py", "-m", "x.y", "--module", "z"], ["-m", "x.y", "-m", "z", "--python", "a.py", "--python", "b.py"]),
            (["-A", "--standalone", "--verbose", "a.py"], ["--verbose", "--all-namespaces", "--standalone", "--python", "a.py"]),
            (["-n", "x", "--namespace=y", "a.py"], ["-n", "x", "-n", "y", "--python", "a.py"]),
            (["--liveness=http://:8080/healthz", "a.py"], ["--address", ":8080", "--liveness", "http://:8080/healthz", "--python", "a.py"]),
            (["--dev", "-p", "5", "-P", "mine", "a.py"], ["--dev", "--peering", "mine", "--priority", "5", "--python", "a.py"]),
            (["--log-format=JSON", "-q", "a.py"], ["--quiet", "--log-format", "json", "--python", "a.py"]),
        ]
        for given, expected in cases:
            with self.subTest(given):
                self.assertEqual(self.arguments(*given), expected)

    def test_variables_of_kopf(self) -> None:
        given = self.arguments("a.py", KOPF_RUN_NAMESPACE="x y", KOPF_RUN_VERBOSE="true", KOPF_RUN_LIVENESS_ENDPOINT="http://:1/x")
        self.assertEqual(given, ["--verbose", "--address", ":1", "--liveness", "http://:1/x", "-n", "x", "-n", "y", "--python", "a.py"])

    def test_nothing_listens_unasked(self) -> None:
        for liveness, expected in (
            (None, ["--address="]),
            ("", ["--address="]),
            ("http://127.0.0.1:8080/healthz", ["--address", "127.0.0.1:8080", "--liveness", "http://127.0.0.1:8080/healthz"]),
        ):
            self.assertEqual(_binary.address_arguments(liveness), expected)
        self.assertIn("--address=", _cli.setpoint_arguments(_cli._parser().parse_args(["run", "a.py"])))

    def fails(self, *given: str, **environment: str) -> str:
        with mock.patch.dict(os.environ, environment), contextlib.redirect_stderr(io.StringIO()) as stderr:
            self.assertEqual(_cli.main(list(given)), 2)
        return stderr.getvalue()

    def test_mistakes(self) -> None:
        self.assertIn("name the files", self.fails("run"))
        with contextlib.redirect_stdout(io.StringIO()) as stdout, self.assertRaises(SystemExit):
            _cli.main(["--version"])
        self.assertRegex(stdout.getvalue(), r"^kopf \d")
        self.assertIn("no executable file", self.fails("run", "a.py", SETPOINT="/no/such/file"))
        self.assertIn("set $SETPOINT", self.fails("run", "a.py", PATH="/nowhere", SETPOINT=""))
        self.assertIn("there is no peering", self.fails("freeze", "-P", "x", "-t", "60"))


class Embedding(unittest.TestCase):
    @contextlib.contextmanager
    def binary(self, **environment: str) -> Iterator[str]:
        with temporary_directory() as folder:
            path = os.path.join(folder, "setpoint")
            with open(path, "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(BINARY))
            os.chmod(path, 0o755)
            called = os.path.join(folder, "called")
            with mock.patch.dict(os.environ, {"SETPOINT": path, "CALLED": called, **environment}):
                yield called

    def registry(self, calls: list[str]) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.startup(registry=registry)
        def startup(memo: object, **_: object) -> None:
            calls.append(f"startup {memo}")

        @kopf.on.cleanup(registry=registry)
        async def cleanup(**_: object) -> None:
            calls.append("cleanup")

        return registry

    def test_flags_of_events(self) -> None:
        calls: list[str] = []

        async def run(called: str) -> None:
            ready, stop = asyncio.Event(), asyncio.Event()
            task = asyncio.create_task(
                kopf.operator(registry=self.registry(calls), ready_flag=ready, stop_flag=stop, namespaces=["a", "b"], memo=7, standalone=True)
            )
            await asyncio.wait_for(ready.wait(), 60)
            stop.set()
            await asyncio.wait_for(task, 60)

        with self.binary() as called:
            asyncio.run(run(called))
            with open(called, encoding="utf-8") as file:
                self.assertRegex(file.read(), r"\['run', '--standalone', '--address=', '-n', 'a', '-n', 'b', '--operator', 'unix://")
        self.assertEqual(calls, ["startup 7", "cleanup"])

    def test_in_a_thread(self) -> None:
        calls: list[str] = []
        ready, stop = threading.Event(), threading.Event()

        def run() -> None:
            kopf.run(registry=self.registry(calls), clusterwide=True, ready_flag=ready, stop_flag=stop)

        with self.binary():
            thread = threading.Thread(target=run)
            thread.start()
            self.assertTrue(ready.wait(60))
            stop.set()
            thread.join(60)
        self.assertEqual(calls, ["startup {}", "cleanup"])

    def test_signals(self) -> None:
        calls: list[str] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            ready = threading.Event()

            def send(number: int = number, ready: threading.Event = ready) -> None:
                ready.wait(60)
                os.kill(os.getpid(), number)

            with self.subTest(number), self.binary():
                thread = threading.Thread(target=send)
                thread.start()
                kopf.run(registry=self.registry(calls), ready_flag=ready)
                thread.join(60)
                self.assertEqual(calls.pop(), "cleanup")

    def test_tasks_are_cancelled(self) -> None:
        calls: list[str] = []

        async def run() -> None:
            ready = asyncio.Event()
            tasks = await kopf.spawn_tasks(registry=self.registry(calls), ready_flag=ready)
            running = asyncio.create_task(kopf.run_tasks(tasks))
            await asyncio.wait_for(ready.wait(), 60)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        with self.binary():
            asyncio.run(run())
        self.assertEqual(calls[-1], "cleanup")

    def fails(self, kind: type[Exception], message: str, calls: Optional[list[str]] = None, **options: object) -> None:
        with self.assertRaisesRegex(kind, message):
            asyncio.run(kopf.operator(registry=self.registry(calls if calls is not None else []), **options))

    def test_failures(self) -> None:
        with self.binary(FAIL="1"):
            self.fails(RuntimeError, "setpoint ended with code 4")
        calls: list[str] = []
        with mock.patch.dict(os.environ, {"SETPOINT": "/no/such"}):
            self.fails(NoBinary, "no executable", calls)
        # Nothing has been started that would have to be undone.
        self.assertEqual(calls, [])
        self.fails(TypeError, "indexers= is not supported", indexers=object())
