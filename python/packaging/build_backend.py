"""Builds the wheel and the sdist of this folder: a PEP 517 backend of the standard library.

Equal sources give equal bytes: files are sorted and have one time and one mode. The wheel that the
sdist builds is equal to that of the repository.

    python3 packaging/build_backend.py FOLDER     writes both, and prints their digests
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent
NAME = "setpoint"
# What is installed. kopf is another name of setpoint.kopf, for scripts with "import kopf".
PACKAGES = ("setpoint", "kopf")
SCRIPTS = {"kopf": "setpoint.kopf._cli:main", "setpoint-python": "setpoint.__main__:main"}
# What an sdist has besides.
SOURCES = ("README.md", "pyproject.toml", "packaging", "tests")
SDIST_INFO = "PKG-INFO"
# Zip archives know no earlier time.
TIME = (1980, 1, 1, 0, 0, 0)

Files = Dict[str, bytes]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None) -> str:
    files = _package_files()
    info = f"{NAME}-{_version()}.dist-info"
    files.update({f"{info}/{name}": content for name, content in _info().items()})
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    name = f"{NAME}-{_version()}-py3-none-any.whl"
    _write_zip(Path(wheel_directory, name), files)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    folder = f"{NAME}-{_version()}"
    files = _package_files()
    for source in SOURCES:
        files.update(_files_of(ROOT / source))
    files["LICENSE"] = _license()
    files[SDIST_INFO] = _metadata()
    _write_tar(Path(sdist_directory, folder + ".tar.gz"), {f"{folder}/{path}": content for path, content in files.items()})
    return folder + ".tar.gz"


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    info = f"{NAME}-{_version()}.dist-info"
    _write_folder(Path(metadata_directory, info), _info())
    return info


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None) -> str:
    """A wheel whose only module is the path of this folder, for pip install --editable."""
    info = f"{NAME}-{_version()}.dist-info"
    files = {f"__editable__.{NAME}.pth": f"{ROOT}\n".encode()}
    files.update({f"{info}/{name}": content for name, content in _info().items()})
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    name = f"{NAME}-{_version()}-py3-none-any.whl"
    _write_zip(Path(wheel_directory, name), files)
    return name


def _package_files() -> Files:
    files: Files = {}
    for package in PACKAGES:
        files.update(_files_of(ROOT / package))
    return files


def _files_of(path: Path) -> Files:
    """A file, or all files of a folder, by their paths below ROOT."""
    found = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return {
        one.relative_to(ROOT).as_posix(): one.read_bytes()
        for one in found
        if "__pycache__" not in one.parts and one.suffix != ".pyc"
    }


def _info() -> Files:
    """The files of .dist-info, except RECORD."""
    scripts = "".join(f"{name} = {function}\n" for name, function in sorted(SCRIPTS.items()))
    return {
        "METADATA": _metadata(),
        "WHEEL": b"Wheel-Version: 1.0\nGenerator: setpoint\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
        "LICENSE": _license(),
    }


def _metadata() -> bytes:
    head = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {_version()}",
        "Summary: Kubernetes operators in Python; runs the scripts of Kopf",
        "License: Apache-2.0",
        "Project-URL: Source, https://github.com/setpoint-dev/setpoint",
        "Classifier: License :: OSI Approved :: Apache Software License",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Typing :: Typed",
        # Both packages have a module kopf; pip does not refuse that by itself.
        "Obsoletes-Dist: kopf",
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(head).encode() + b"\n\n" + (ROOT / "README.md").read_bytes()


def _license() -> bytes:
    """That of an unpacked sdist, or that of the repository."""
    inside = ROOT / "LICENSE"
    return (inside if inside.is_file() else ROOT.parent / "LICENSE").read_bytes()


def _version() -> str:
    """$SETPOINT_VERSION, else that of an unpacked sdist, else that of the commit."""
    given = os.environ.get("SETPOINT_VERSION")
    if given:
        return python_version(given)
    info = ROOT / SDIST_INFO
    if info.is_file():
        return info.read_text().split("\nVersion: ", 1)[1].split("\n", 1)[0]
    return python_version(_commit_version())


def _commit_version() -> str:
    """The tag of the commit, else 0.0.0- with its time and digest, as tools/release has it."""
    tag = _git("describe", "--tags", "--exact-match")
    if tag:
        return tag
    stamp = _git("show", "-s", "--format=%cd-%H", "--date=format-local:%Y%m%d%H%M%S", "HEAD")
    return f"0.0.0-{stamp[:27]}" if stamp else "0.0.0"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TZ": "UTC"})
    except OSError:
        return ""  # Without git the version is 0.0.0.
    return result.stdout.strip() if result.returncode == 0 else ""


_SEMANTIC = re.compile(r"v?(\d+\.\d+\.\d+)(?:-(.+))?")
_PRERELEASES = {"alpha": "a", "beta": "b", "rc": "rc"}


def python_version(version: str) -> str:
    """A semantic version as PEP 440 has it: 1.2.3-rc.1 is 1.2.3rc1, 0.0.0-TIME-DIGEST is 0.0.0.devTIME+DIGEST."""
    match = _SEMANTIC.fullmatch(version)
    if not match:
        raise SystemExit(f"SETPOINT_VERSION: {version!r} is not a semantic version such as 1.2.3 or 1.2.3-rc.1")
    release, suffix = match.groups()
    if not suffix:
        return release
    phase = re.fullmatch(r"(alpha|beta|rc)\.?(\d+)", suffix)
    if phase:
        return f"{release}{_PRERELEASES[phase[1]]}{phase[2]}"
    snapshot = re.fullmatch(r"(\d+)-(\w+)", suffix)
    if snapshot:
        return f"{release}.dev{snapshot[1]}+{snapshot[2]}"
    return f"{release}+{re.sub('[^A-Za-z0-9]+', '.', suffix)}"


def _record(files: Mapping[str, bytes], own: str) -> bytes:
    lines = []
    for path, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{own},,", ""]).encode()


def _write_zip(path: Path, files: Files) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(name, TIME)
            info.create_system = 3  # Unix, also when built elsewhere.
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


def _write_tar(path: Path, files: Files) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
        compressed.write(data.getvalue())


def _write_folder(folder: Path, files: Files) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def main(arguments: List[str]) -> None:
    if len(arguments) != 1:
        raise SystemExit("usage: build_backend.py FOLDER")
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    built: Tuple[str, ...] = (build_wheel(str(folder)), build_sdist(str(folder)))
    for name in built:
        print(hashlib.sha256((folder / name).read_bytes()).hexdigest(), name, sep="  ")


if __name__ == "__main__":
    main(sys.argv[1:])
