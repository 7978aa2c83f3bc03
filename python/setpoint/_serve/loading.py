"""Imports the author's files and modules."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import itertools
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import TracebackType
from typing import Optional


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class LoadError(Exception):
    """A file or module cannot be imported. The message has the line of the author's file."""


def load(files: Sequence[str], modules: Sequence[str]) -> None:
    """Import files, then modules, in their order."""
    for path in files:
        _import(path, lambda path=path: _load_file(path))
    if modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in modules:
        _import(f"module {name}", lambda name=name: importlib.import_module(name))


def digest() -> str:
    """Return a digest of the author's modules: those that are not of the standard library, installed, or ours."""
    sums = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        if not _is_authors(path):
            continue
        with contextlib.suppress(OSError), open(path, "rb") as file:
            sums.add(hashlib.sha256(os.path.basename(path).encode() + b"\0" + file.read()).digest())
    return hashlib.sha256(b"".join(sorted(sums))).hexdigest() if sums else ""


def _is_authors(path: str) -> bool:
    standard = os.path.dirname(os.__file__) + os.sep
    installed = f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path
    return path.endswith(".py") and not installed and not os.path.abspath(path).startswith((standard, _PACKAGE))


def _load_file(path: str) -> None:
    if not os.path.isfile(path):
        raise LoadError(f"{path}: no such file")
    folder = os.path.abspath(os.path.dirname(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name, package = _module_name(path)
    if package:
        importlib.import_module(name)
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path}: not a Python file; its name must end with .py")
    _execute(spec)


def _execute(spec: ModuleSpec) -> None:
    """Import a module by its spec."""
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Before it runs, so that dataclasses and pickle find the module by its name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise


def _module_name(path: str) -> tuple[str, bool]:
    """Return the name of a file's module, and whether it belongs to a package.

    In a package, the file is imported by its full name, so that its relative imports work and modules
    that other files import exist once.
    """
    folder, stem = os.path.split(os.path.abspath(path))
    stem = os.path.splitext(stem)[0]
    parts = [] if stem == "__init__" else [stem]
    if not os.path.isfile(os.path.join(folder, "__init__.py")):
        return _unused_name(stem.replace(".", "_"), folder), False
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        package = folder
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    if _is_taken(parts[0], package):
        parts[0] = _load_package(_unused_name(parts[0], folder), package)
    elif folder not in sys.path:
        sys.path.insert(0, folder)
    return ".".join(parts), True


def _is_taken(name: str, folder: str) -> bool:
    """Report whether a package cannot have its name, which a module of the standard library has."""
    if name in sys.modules:
        return folder not in [os.path.abspath(path) for path in getattr(sys.modules[name], "__path__", ())]
    standard = [os.path.dirname(os.__file__)]
    return name in sys.builtin_module_names or PathFinder.find_spec(name, standard) is not None


def _load_package(name: str, folder: str) -> str:
    """Import a package by another name, which its relative imports follow, and return the name."""
    for known, module in list(sys.modules.items()):
        if folder in getattr(module, "__path__", ()):
            return known
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    _execute(spec)
    return name


def _unused_name(stem: str, folder: str) -> str:
    """Return the name of the file, which its logger has, or with a suffix if another module has it.

    Many files are named operator.py or queue.py, as modules of the standard library are.
    """
    others = [entry for entry in sys.path if os.path.abspath(entry) != folder]
    known = stem in sys.modules or stem in sys.builtin_module_names or PathFinder.find_spec(stem, others) is not None
    names = itertools.chain([] if known else [stem], [f"{stem}_py"], (f"{stem}_py_{i}" for i in itertools.count(2)))
    return next(name for name in names if name not in sys.modules)


def _import(what: str, action: object) -> None:
    try:
        action()  # type: ignore[operator]
    except LoadError:
        raise
    except SyntaxError as error:
        text = "".join(traceback.format_exception_only(type(error), error)).rstrip()
        raise LoadError(f"cannot import {what}:\n{text}") from None
    except SystemExit as error:
        raise LoadError(f"cannot import {what}: it calls sys.exit({error.code!r}) when it is imported") from None
    except Exception as error:
        trace = "".join(_traceback(error).format())
        raise LoadError(f"cannot import {what}:\n{trace.rstrip()}{_missing(error)}") from None


def _missing(error: Exception) -> str:
    """Return what an author can do about a missing module or name."""
    name = (error.name or "") if isinstance(error, ImportError) else ""
    if name.startswith("kopf."):
        return (
            "\nSetpoint has the public names of Kopf and its types, not its engine: "
            "docs/kopf-names.md lists them; import them from kopf itself."
        )
    if not isinstance(error, ModuleNotFoundError) or name.partition(".")[0] in ("", "kopf", "setpoint"):
        return ""
    # It is seldom that of the author's shell.
    return f"\nThe interpreter is {sys.executable}; that of an activated virtual environment comes before python3 of the PATH."


def _traceback(error: Exception) -> traceback.TracebackException:
    """Return the error with the frames of the author's files, not with those below, of decorators of ours."""
    shown = traceback.TracebackException(type(error), error, _authors_part(error.__traceback__))
    own = len(shown.stack)
    while own > 0 and shown.stack[own - 1].filename.startswith(_PACKAGE):
        own -= 1
    if own:
        del shown.stack[own:]
    return shown


def _authors_part(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    """Drop the frames of this file and of the import system from the start of a traceback."""
    while trace is not None and trace.tb_next is not None:
        name = trace.tb_frame.f_code.co_filename
        if name != __file__ and "importlib" not in name:
            break
        trace = trace.tb_next
    return trace
