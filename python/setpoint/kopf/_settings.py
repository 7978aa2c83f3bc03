"""The settings of an operator, as startup handlers change them.

Setpoint watches, queues and records, so the settings of Kopf's own engine have no effect. They are
accepted, because scripts set them; which of them have an effect, their comments say.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from setpoint._engine import settings as engine
from setpoint.kopf._storages import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    ProgressStorage,
    SmartProgressStorage,
)

DEFAULT_FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


@dataclass
class ProcessSettings(engine.SettingsGroup):
    """No effect: Setpoint ends the process."""

    ultimate_exiting_timeout: Optional[float] = 600


@dataclass
class PostingSettings(engine.PostingSettings):
    """Which events are sent. Setpoint is the one who reports."""

    reporting_component: str = "kopf"
    reporting_instance: str = "dev"
    event_name_prefix: str = "kopf-event-"


@dataclass
class PeeringSettings(engine.SettingsGroup):
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
class WatchingSettings(engine.SettingsGroup):
    """No effect: Setpoint watches, and connects again by itself."""

    server_timeout: Optional[float] = None
    client_timeout: Optional[float] = None
    connect_timeout: Optional[float] = None
    reconnect_backoff: float = 0.1
    inactivity_timeout: float = 70.0


@dataclass
class QueueingSettings(engine.SettingsGroup):
    """No effect: Setpoint queues."""

    worker_limit: Optional[int] = None
    idle_timeout: float = 5.0
    exit_timeout: float = 2.0
    error_delays: Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610)
    batch_window: float = 0.1


@dataclass
class ScanningSettings(engine.SettingsGroup):
    """No effect: Setpoint discovers kinds and namespaces."""

    disabled: bool = False


@dataclass
class AdmissionSettings(engine.SettingsGroup):
    """Whether admission handlers are served. Setpoint has the server and the configurations."""

    server: Any = None
    managed: Optional[str] = None


@dataclass
class NetworkingSettings(engine.SettingsGroup):
    """No effect: Setpoint makes the requests to the API server."""

    request_timeout: Optional[float] = 300
    connect_timeout: Optional[float] = None
    error_backoffs: Union[float, Iterable[float]] = (1, 1, 2, 3, 5, 8, 13, 21)
    enforce_retry_after: bool = False
    trust_env: bool = False


@dataclass
class PersistenceSettings(engine.SettingsGroup):
    """The finalizer has an effect. The storages say where a former Kopf kept what it handled."""

    finalizer: str = DEFAULT_FINALIZER
    progress_storage: ProgressStorage = field(default_factory=SmartProgressStorage)
    diffbase_storage: DiffBaseStorage = field(default_factory=AnnotationsDiffBaseStorage)
    consistency_timeout: float = 5.0


@dataclass
class BackgroundSettings(engine.SettingsGroup):
    """No effect: a notification says at once that a daemon has ended."""

    cancellation_polling: float = 60
    instant_exit_timeout: Optional[float] = None
    instant_exit_zero_time_cycles: Optional[int] = 10


@dataclass
class OperatorSettings(engine.Settings):
    """All settings of an operator."""

    process: ProcessSettings = field(default_factory=ProcessSettings)
    posting: PostingSettings = field(default_factory=PostingSettings)
    peering: PeeringSettings = field(default_factory=PeeringSettings)
    watching: WatchingSettings = field(default_factory=WatchingSettings)
    queueing: QueueingSettings = field(default_factory=QueueingSettings)
    scanning: ScanningSettings = field(default_factory=ScanningSettings)
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    execution: engine.ExecutionSettings = field(default_factory=engine.ExecutionSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    networking: NetworkingSettings = field(default_factory=NetworkingSettings)
    persistence: PersistenceSettings = field(default_factory=PersistenceSettings)

    @property
    def batching(self) -> QueueingSettings:
        """The former name of queueing."""
        warnings.warn("settings.batching is now settings.queueing", DeprecationWarning, stacklevel=2)
        return self.queueing
