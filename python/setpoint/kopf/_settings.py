"""The settings of an operator, as startup handlers change them.

Setpoint watches, queues and records, so the settings of Kopf's own engine have no effect. They are
accepted, because scripts set them; which of them have an effect, their comments say.
"""

from __future__ import annotations

import concurrent.futures.thread  # With its parts: later, a script named queue.py would be found instead.
import difflib
import logging
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Union

from setpoint.kopf._errors import PermanentError
from setpoint.kopf._storages import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    ProgressStorage,
    SmartProgressStorage,
)

DEFAULT_FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


class UnknownSetting(AttributeError, PermanentError):
    """A script sets a setting that does not exist. It would have no effect."""


class _Settings:
    """Settings refuse names that they do not have."""

    # Type checkers find such names themselves, unless there is this method.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            if not hasattr(type(self), name) and name not in getattr(type(self), "__dataclass_fields__", {}):
                raise UnknownSetting(self._unknown(name))
            super().__setattr__(name, value)

    def _unknown(self, name: str) -> str:
        group = type(self).__name__.removesuffix("Settings").lower()
        where = "settings" if group == "operator" else f"settings.{group}"
        fields: Iterable[str] = getattr(type(self), "__dataclass_fields__", ())
        known = [each for each in fields if not each.startswith("_")]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"{where}.{name}: no such setting; {hint}"


@dataclass
class ProcessSettings(_Settings):
    """No effect: Setpoint ends the process."""

    ultimate_exiting_timeout: Optional[float] = 600


@dataclass
class PostingSettings(_Settings):
    """Which events are sent: enabled, loggers and level have an effect. Setpoint is the one who reports."""

    enabled: bool = True
    loggers: bool = False
    level: int = logging.INFO
    reporting_component: str = "kopf"
    reporting_instance: str = "dev"
    event_name_prefix: str = "kopf-event-"


@dataclass
class PeeringSettings(_Settings):
    """No effect: a Lease elects the replica of Setpoint that works."""

    name: str = "default"
    stealth: bool = False
    priority: int = 0
    lifetime: int = 60
    mandatory: bool = False
    standalone: bool = False
    clusterwide: bool = False

    @property
    def namespaced(self) -> bool:
        """The opposite of clusterwide."""
        return not self.clusterwide

    @namespaced.setter
    def namespaced(self, value: bool) -> None:
        self.clusterwide = not value


@dataclass
class WatchingSettings(_Settings):
    """No effect: Setpoint watches, and connects again by itself."""

    server_timeout: Optional[float] = None
    client_timeout: Optional[float] = None
    connect_timeout: Optional[float] = None
    reconnect_backoff: float = 0.1
    inactivity_timeout: float = 70.0


@dataclass
class QueueingSettings(_Settings):
    """No effect: Setpoint queues."""

    worker_limit: Optional[int] = None
    idle_timeout: float = 5.0
    exit_timeout: float = 2.0
    error_delays: Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610)
    batch_window: float = 0.1


@dataclass
class ScanningSettings(_Settings):
    """No effect: Setpoint discovers kinds and namespaces."""

    disabled: bool = False


@dataclass
class AdmissionSettings(_Settings):
    """Whether admission handlers are served. Setpoint has the server and the configurations."""

    server: Any = None
    managed: Optional[str] = None


@dataclass
class ExecutionSettings(_Settings):
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
class NetworkingSettings(_Settings):
    """No effect: Setpoint makes the requests to the API server."""

    request_timeout: Optional[float] = 300
    connect_timeout: Optional[float] = None
    error_backoffs: Union[float, Iterable[float]] = (1, 1, 2, 3, 5, 8, 13, 21)
    enforce_retry_after: bool = False
    trust_env: bool = False


@dataclass
class PersistenceSettings(_Settings):
    """The finalizer has an effect. The storages say where a former Kopf kept what it handled."""

    finalizer: str = DEFAULT_FINALIZER
    progress_storage: ProgressStorage = field(default_factory=SmartProgressStorage)
    diffbase_storage: DiffBaseStorage = field(default_factory=AnnotationsDiffBaseStorage)
    consistency_timeout: float = 5.0


@dataclass
class BackgroundSettings(_Settings):
    """No effect: a notification says at once that a daemon has ended."""

    cancellation_polling: float = 60
    instant_exit_timeout: Optional[float] = None
    instant_exit_zero_time_cycles: Optional[int] = 10


@dataclass
class OperatorSettings(_Settings):
    """All settings of an operator."""

    process: ProcessSettings = field(default_factory=ProcessSettings)
    posting: PostingSettings = field(default_factory=PostingSettings)
    peering: PeeringSettings = field(default_factory=PeeringSettings)
    watching: WatchingSettings = field(default_factory=WatchingSettings)
    queueing: QueueingSettings = field(default_factory=QueueingSettings)
    scanning: ScanningSettings = field(default_factory=ScanningSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    execution: ExecutionSettings = field(default_factory=ExecutionSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    networking: NetworkingSettings = field(default_factory=NetworkingSettings)
    persistence: PersistenceSettings = field(default_factory=PersistenceSettings)

    @property
    def batching(self) -> QueueingSettings:
        """The former name of queueing."""
        warnings.warn("settings.batching is now settings.queueing", DeprecationWarning, stacklevel=2)
        return self.queueing
