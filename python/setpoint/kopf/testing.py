"""Runs an operator beside a test: kopf.testing.KopfRunner."""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional

from setpoint._command import operator_name
from setpoint._engine.logs import LogFormat, configure
from setpoint._engine.registry import Registry, get_default_registry, set_default_registry
from setpoint._serve.loading import load
from setpoint.kopf import _cli, _embedding
from setpoint.kopf._settings import OperatorSettings
from setpoint.kopf._style import OperatorRegistry

__all__ = ["KopfRunner"]

# How long the start of a with block waits for Setpoint.
READY_TIMEOUT = 60.0

_ExcInfo = tuple[type[BaseException], BaseException, Optional[TracebackType]]


@dataclass(frozen=True)
class Result:
    """What has become of a command."""

    output: str
    exit_code: int
    exception: Optional[BaseException] = None
    exc_info: Optional[_ExcInfo] = None


class KopfRunner:
    """Runs `kopf run` in a thread of this process during a with block, and `setpoint run` as its child.

    The block begins when Setpoint is ready. The operator works on the cluster of $KUBECONFIG: run the tests by
    `setpoint dev -- python -m pytest`.

        with KopfRunner(["run", "-A", "--verbose", "operator.py"]) as runner:
            ...
        assert runner.exit_code == 0
        assert "And here we are!" in runner.output
    """

    def __init__(
        self,
        args: Sequence[str],
        *,
        reraise: bool = True,
        timeout: Optional[float] = None,
        registry: Optional[OperatorRegistry] = None,
        settings: Optional[OperatorSettings] = None,
        env: Optional[Mapping[str, str]] = None,
        **unused: Any,
    ) -> None:
        unknown = set(unused) - {"input", "catch_exceptions", "color"}
        if unknown:
            raise TypeError(f"KopfRunner has no argument {min(unknown)}=")
        self.args = list(args)
        self.reraise = reraise
        self.timeout = timeout
        self.registry = registry
        self.settings = settings
        self.env = dict(env or {})
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._future: concurrent.futures.Future[Result] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._target, name="kopf", daemon=True)

    def __enter__(self) -> KopfRunner:
        self._future.add_done_callback(lambda _: self._ready.set())
        self._thread.start()
        self._ready.wait(READY_TIMEOUT)
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._stop.set()
        self._thread.join(self.timeout)
        if self._thread.is_alive():
            raise RuntimeError("The operator didn't stop, still running.")
        failure = self._future.exception() or self._future.result().exception
        if failure is not None and (self.reraise or self._future.exception() is not None):
            raise failure from error

    @property
    def future(self) -> concurrent.futures.Future[Any]:
        """The result, when the command has ended."""
        return self._future

    @property
    def output(self) -> str:
        """What handlers have printed and logged."""
        return self._future.result().output

    @property
    def stdout(self) -> str:
        """The same: the streams are not kept apart."""
        return self.output

    @property
    def stdout_bytes(self) -> bytes:
        """The same, encoded."""
        return self.output.encode()

    @property
    def stderr(self) -> str:
        """The same."""
        return self.output

    @property
    def stderr_bytes(self) -> bytes:
        """The same, encoded."""
        return self.output.encode()

    @property
    def exit_code(self) -> int:
        """0, or what the command line would have ended with."""
        return self._future.result().exit_code

    @property
    def exception(self) -> Optional[BaseException]:
        """The error that ended the operator."""
        return self._future.result().exception

    @property
    def exc_info(self) -> Optional[_ExcInfo]:
        """The same with its traceback."""
        return self._future.result().exc_info

    def _target(self) -> None:
        output = io.StringIO()
        try:
            with _environment(self.env), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                try:
                    self._run()
                    result = Result("", 0)
                except BaseException as error:
                    result = _failed(error)
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(Result(output.getvalue(), result.exit_code, result.exception, result.exc_info))

    def _run(self) -> None:
        options = _cli.parse(self.args)
        with _registered(self.registry, options.modules) as registry, _logging():
            configure(
                debug=options.debug, verbose=options.verbose, quiet=options.quiet, log_prefix=options.log_prefix,
                log_format=LogFormat[(options.log_format or "full").upper()], log_refkey=options.log_refkey,
            )
            load(options.paths, options.modules)
            # The name that `setpoint run --python` has for the files, so that it is one operator.
            name = operator_name(argparse.Namespace(files=options.paths, modules=options.modules))
            operator = _embedding.operator(
                identity=name, registry=registry, settings=self.settings, standalone=options.standalone or None,
                priority=options.priority, peering_name=options.peering, liveness_endpoint=options.liveness,
                clusterwide=options.all_namespaces, namespaces=options.namespaces,
                stop_flag=self._stop, ready_flag=self._ready,
            )
            asyncio.run(operator)


def _failed(error: BaseException) -> Result:
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        return Result("", code, error if code else None, sys.exc_info() if code else None)  # type: ignore[arg-type]
    return Result("", 1, error, sys.exc_info())  # type: ignore[arg-type]


@contextlib.contextmanager
def _registered(registry: Optional[Registry], modules: Sequence[str]) -> Iterator[Registry]:
    """Let decorators register in a registry, by default a new one: files are imported anew for each run.

    Modules are imported once, so that what they have registered is in the default registry.
    """
    former = get_default_registry()
    used = registry if registry is not None else former if modules else OperatorRegistry()
    set_default_registry(used)
    try:
        yield used
    finally:
        set_default_registry(former)


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """Give the test its own logs back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    former = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
