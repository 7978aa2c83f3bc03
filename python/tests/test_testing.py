"""KopfRunner. A script stands for the binary of Setpoint."""

import os
import sys
import textwrap
import unittest
from unittest import mock

from kopf.testing import KopfRunner
from setpoint import kopf
from setpoint._serve.loading import LoadError
from tests.harness import temporary_directory

# Reads the declaration, as Setpoint does, and stays until it is terminated.
BINARY = f"""\
    #!{sys.executable}
    import os, socket, sys
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[sys.argv.index("--operator") + 1][len("unix://"):])
    connection.sendall(b"GET /declaration HTTP/1.1\\r\\n\\r\\n")
    with open(os.environ["DECLARED"], "wb") as file:
        file.write(connection.recv(100000))
    connection.sendall(b"GET /notifications HTTP/1.1\\r\\n\\r\\n")
    while connection.recv(1000):
        pass
"""
OPERATOR = """\
    import kopf
    @kopf.on.startup()
    def startup(settings, logger, **_):
        print("And here we are!", settings.posting.level)
        logger.info("logged")
    @kopf.on.create("examples")
    def create(**_):
        pass
"""


class Runner(unittest.TestCase):
    def setUp(self):
        folder = temporary_directory()
        self.addCleanup(folder.cleanup)
        self.operator = self.write(folder.name, "my_operator.py", OPERATOR)
        binary = self.write(folder.name, "setpoint", BINARY)
        os.chmod(binary, 0o755)
        self.declared = os.path.join(folder.name, "declared")
        environment = mock.patch.dict(os.environ, SETPOINT=binary, DECLARED=self.declared)
        environment.start()
        self.addCleanup(environment.stop)

    def write(self, folder, name, text):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def declaration(self):
        with open(self.declared, encoding="utf-8") as file:
            return file.read()

    def test_runs_twice_in_one_process(self):
        before = kopf.get_default_registry()
        for _ in range(2):
            with KopfRunner(["run", "-A", "--verbose", self.operator], timeout=60) as runner:
                self.assertIn('"name":"my-operator"', self.declaration())
                self.assertEqual(1, self.declaration().count('"name":"create"'))
            self.assertEqual((0, None, None), (runner.exit_code, runner.exception, runner.exc_info))
            self.assertIn("And here we are! 20", runner.output)
            self.assertIn("logged", runner.stdout)
        self.assertIs(before, kopf.get_default_registry())

    def test_settings_and_registry(self):
        settings = kopf.OperatorSettings()
        settings.posting.level = 40
        registry = kopf.OperatorRegistry()
        with KopfRunner(["run", "-A", self.operator], settings=settings, registry=registry, timeout=60) as runner:
            pass
        self.assertIn("And here we are! 40", runner.output)
        self.assertTrue(registry)

    def test_errors(self):
        with self.assertRaises(LoadError), KopfRunner(["run", "no-such-file.py"], timeout=60):
            pass
        with self.assertRaises(ValueError), KopfRunner(["run", self.operator], timeout=60):
            raise ValueError("of the test")
        with KopfRunner(["run", "--nonsense"], reraise=False, timeout=60) as runner:
            pass
        self.assertEqual(2, runner.exit_code)
        self.assertIn("--nonsense", runner.output)
        with KopfRunner(["freeze", "-P", "x"], reraise=False, timeout=60) as runner:
            pass
        self.assertIn("there is no peering", runner.output)
        with self.assertRaisesRegex(TypeError, "no argument nonsense="):
            KopfRunner(["run"], nonsense=1)

    def test_variables(self):
        with KopfRunner(["run", self.operator], env={"DECLARED": self.declared + "2"}, timeout=60):
            self.assertTrue(os.path.exists(self.declared + "2"))
        self.assertEqual(self.declared, os.environ["DECLARED"])


if __name__ == "__main__":
    unittest.main()
