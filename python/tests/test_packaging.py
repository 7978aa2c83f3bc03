import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
BACKEND = "packaging"
# Newer versions want a filter, and older ones have none.
FILTER = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def backend_of(root):
    """Import the build backend of a folder."""
    name = "build_backend"
    sys.modules.pop(name, None)
    sys.path.insert(0, str(root / BACKEND))
    try:
        return __import__(name)
    finally:
        sys.path.pop(0)
        sys.modules.pop(name, None)


class VersionTest(unittest.TestCase):
    def test_versions(self):
        version = backend_of(ROOT).python_version
        for semantic, python in [
            ("1.2.3", "1.2.3"),
            ("v1.2.3", "1.2.3"),
            ("1.2.3-rc.1", "1.2.3rc1"),
            ("1.2.3-alpha.2", "1.2.3a2"),
            ("0.0.0-20260102030405-0123456789ab", "0.0.0.dev20260102030405+0123456789ab"),
            ("1.2.3-next.w", "1.2.3+next.w"),
        ]:
            with self.subTest(semantic):
                self.assertEqual(python, version(semantic))
        with self.assertRaisesRegex(SystemExit, "SETPOINT_VERSION: 'x' is not a semantic version"):
            version("x")


class DistributionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        version = mock.patch.dict(os.environ, SETPOINT_VERSION="1.2.3")
        version.start()
        cls.addClassCleanup(version.stop)
        cls.folder = Path(folder.name)
        cls.backend = backend_of(ROOT)
        cls.wheel = cls.folder / cls.backend.build_wheel(folder.name)
        cls.sdist = cls.folder / cls.backend.build_sdist(folder.name)

    def test_two_builds_are_equal(self):
        with tempfile.TemporaryDirectory() as again:
            for first, build in [(self.wheel, self.backend.build_wheel), (self.sdist, self.backend.build_sdist)]:
                second = Path(again) / build(again)
                self.assertEqual(first.name, second.name)
                self.assertEqual(digest(first), digest(second))

    def test_the_sdist_builds_the_same_wheel(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
            del os.environ["SETPOINT_VERSION"]
            with tarfile.open(self.sdist) as archive:
                archive.extractall(folder, **FILTER)
            backend = backend_of(Path(folder, "setpoint-1.2.3"))
            wheel = Path(folder) / backend.build_wheel(folder)
            self.assertEqual(self.wheel.name, wheel.name)
            self.assertEqual(digest(self.wheel), digest(wheel))

    def test_the_record_lists_all_files(self):
        with zipfile.ZipFile(self.wheel) as archive:
            record = archive.read("setpoint-1.2.3.dist-info/RECORD").decode().splitlines()
            self.assertEqual(sorted(archive.namelist()), sorted(line.split(",")[0] for line in record))
            self.assertIn("kopf/py.typed", archive.namelist())
            self.assertIn("setpoint/py.typed", archive.namelist())
            self.assertFalse([name for name in archive.namelist() if "tests" in name or name.endswith(".pyc")])

    def test_an_installed_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            python = self.install(Path(folder))
            for module in ["setpoint", "kopf", "kopf.on", "kopf.testing"]:
                self.run_isolated([*python, f"import {module}"])
            same = "import kopf, setpoint.kopf; assert kopf.on.create is setpoint.kopf.on.create"
            self.run_isolated([*python, same])

    def install(self, folder):
        """Install the wheel with pip, else unpack it; the result runs an interpreter that has it."""
        python = folder / "venv" / "bin" / "python"
        try:
            self.run_isolated([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
            pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
            self.run_isolated([*pip, "install", "-q", "--no-index", "--no-deps", str(self.wheel)])
        except subprocess.CalledProcessError as error:
            print(f"{' '.join(error.cmd)} failed, so the wheel is unpacked: {error.stderr}", file=sys.stderr)
            with zipfile.ZipFile(self.wheel) as archive:
                archive.extractall(folder / "unpacked")
            start = f"import sys; sys.path.insert(0, {str(folder / 'unpacked')!r}); exec(sys.argv[1])"
            return [sys.executable, "-c", start]
        for script in self.backend.SCRIPTS:
            self.run_isolated([str(python.with_name(script)), "--help"])
        return [str(python), "-c"]

    def run_isolated(self, command):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=environment, check=True)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    unittest.main()
