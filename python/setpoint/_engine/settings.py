"""The settings of an operator, as functions at its start change them."""

from __future__ import annotations

import concurrent.futures.thread  # With its parts: later, a script named queue.py would be found instead.
import difflib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

from setpoint._engine.errors import PermanentError


class UnknownSetting(AttributeError, PermanentError):
    """A script sets a setting that does not exist. It would have no effect."""


class SettingsGroup:
    """Settings refuse names that they do not have."""

    # Type checkers find such names themselves, unless there is this method.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            if not hasattr(type(self), name) and name not in getattr(type(self), "__dataclass_fields__", {}):
                raise UnknownSetting(self._unknown(name))
            super().__setattr__(name, value)

    def _unknown(self, name: str) -> str:
        group = type(self).__name__.removesuffix("Settings").lower()
        where = "settings" if group in ("", "operator") else f"settings.{group}"
        fields: Iterable[str] = getattr(type(self), "__dataclass_fields__", ())
        known = [each for each in fields if not each.startswith("_")]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"{where}.{name}: no such setting; {hint}"


@dataclass
class PostingSettings(SettingsGroup):
    """Which events are sent."""

    enabled: bool = True
    loggers: bool = False
    level: int = logging.INFO


@dataclass
class ExecutionSettings(SettingsGroup):
    """How handlers run. All have an effect."""

    default_backoff: float = 60
    executor: concurrent.futures.Executor = field(
        # As many as Setpoint makes calls of one controller at once; handlers mostly wait for others.
        default_factory=lambda: concurrent.futures.ThreadPoolExecutor(32, thread_name_prefix="handler")
    )
    _max_workers: Optional[int] = None

    @property
    def max_workers(self) -> Optional[int]:
        """How many handlers without async run at once."""
        return self._max_workers

    @max_workers.setter
    def max_workers(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"settings.execution.max_workers must be at least 1, is {value!r}")
        if not isinstance(self.executor, concurrent.futures.ThreadPoolExecutor):
            raise TypeError("settings.execution.max_workers requires a ThreadPoolExecutor")
        self._max_workers = value
        self.executor = concurrent.futures.ThreadPoolExecutor(value, thread_name_prefix="handler")


@dataclass
class Settings(SettingsGroup):
    """The settings that every operator has."""

    posting: PostingSettings = field(default_factory=PostingSettings)
    execution: ExecutionSettings = field(default_factory=ExecutionSettings)
