"""Logs of handlers: the object of a call is in each line."""

from __future__ import annotations

import copy
import enum
import json
import logging
from collections.abc import Mapping, MutableMapping
from typing import Any, Optional, Union

from setpoint._engine.bodies import build_object_reference

logger = logging.getLogger("kopf.objects")

# The type of the argument logger.
Logger = Union[logging.Logger, "logging.LoggerAdapter[logging.Logger]"]


class LogFormat(enum.Enum):
    """The form of a line."""

    PLAIN = "%(message)s"
    FULL = "[%(asctime)s] %(name)-20.20s [%(levelname)-8.8s] %(message)s"
    JSON = "-json-"


class ObjectLogger(logging.LoggerAdapter):  # type: ignore[type-arg]
    """The logger of a call: it adds the object to each record."""

    def __init__(self, *, body: Mapping[str, Any], settings: Any = None) -> None:
        super().__init__(logger, {"k8s_skip": False, "k8s_ref": build_object_reference(body), "settings": settings})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class LocalObjectLogger(ObjectLogger):
    """The same, for lines that never become events."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        msg, kwargs = super().process(msg, kwargs)
        kwargs["extra"]["k8s_skip"] = True
        return msg, kwargs


class TerseObjectLogger(LocalObjectLogger):
    """The same for indices, which are called for thousands of objects: INFO counts as DEBUG."""

    def isEnabledFor(self, level: int) -> bool:
        if level < logging.WARNING:
            level -= logging.INFO - logging.DEBUG
        return super().isEnabledFor(level)


class _TextFormatter(logging.Formatter):
    def __init__(self, form: str, prefix: bool) -> None:
        super().__init__(form)
        self._prefix = prefix

    def format(self, record: logging.LogRecord) -> str:
        return super().format(_prefixed(record) if self._prefix else record)


class _JSONFormatter(logging.Formatter):
    def __init__(self, prefix: bool, refkey: Optional[str]) -> None:
        super().__init__()
        self._prefix = prefix
        self._refkey = refkey or "object"

    def format(self, record: logging.LogRecord) -> str:
        shown = _prefixed(record) if self._prefix else record
        line: dict[str, Any] = {
            "message": shown.getMessage(),
            "timestamp": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "severity": _severity(record.levelno),
            "logger": record.name,
        }
        if hasattr(record, "k8s_ref"):
            line[self._refkey] = record.k8s_ref
        if record.exc_info:
            line["exc_info"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """Ours, so that a second configure replaces it and no other."""


def configure(
    debug: Optional[bool] = None, verbose: Optional[bool] = None, quiet: Optional[bool] = None,
    log_format: Union[LogFormat, str] = LogFormat.FULL, log_prefix: Optional[bool] = False,
    log_refkey: Optional[str] = None,
) -> None:
    """Configure the root logger to write to standard error."""
    handler = _Handler()
    handler.setFormatter(_formatter(log_format, log_prefix, log_refkey))
    root = logging.getLogger()
    root.handlers[:] = [h for h in root.handlers if not isinstance(h, _Handler)]
    root.addHandler(handler)
    root.setLevel("DEBUG" if debug or verbose else "WARNING" if quiet else "INFO")
    # Debug messages of asyncio are about this process, not about objects.
    logging.getLogger("asyncio").setLevel(logging.NOTSET if debug else logging.WARNING)


def _formatter(form: Union[LogFormat, str], prefix: Optional[bool], refkey: Optional[str]) -> logging.Formatter:
    if prefix is None:
        prefix = form is not LogFormat.JSON
    if form is LogFormat.JSON:
        return _JSONFormatter(prefix, refkey)
    if not isinstance(form, (LogFormat, str)):
        raise ValueError(f"log_format must be a kopf.LogFormat or a string, is {form!r}")
    return _TextFormatter(form.value if isinstance(form, LogFormat) else form, prefix)


def _prefixed(record: logging.LogRecord) -> logging.LogRecord:
    reference = getattr(record, "k8s_ref", None)
    if not reference:
        return record
    name = "/".join(part for part in (reference.get("namespace"), reference.get("name")) if part)
    record = copy.copy(record)
    # A name has no percent sign, so that the arguments still fit the message.
    record.msg = f"[{name}] {record.msg}"
    return record


def _severity(level: int) -> str:
    for limit, name in ((logging.DEBUG, "debug"), (logging.INFO, "info"), (logging.WARNING, "warn")):
        if level <= limit:
            return name
    return "error" if level <= logging.ERROR else "fatal"
