"""Kopf's public names. A script that imports `kopf` runs unchanged."""

from setpoint._engine.bodies import (
    Annotations,
    Body,
    BodyEssence,
    Labels,
    Meta,
    ObjectReference,
    OwnerReference,
    RawBody,
    RawEvent,
    RawEventType,
    Spec,
    Status,
    build_object_reference,
    build_owner_reference,
)
from setpoint._engine.credentials import AiohttpSession, ConnectionInfo, LoginError
from setpoint._engine.dicts import FieldPath, FieldSpec
from setpoint._engine.diffs import Diff, DiffItem, DiffOperation
from setpoint._engine.errors import (
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from setpoint._engine.events import event, exception, info, warn
from setpoint._engine.filters import ABSENT, PRESENT, all_, any_, none_, not_
from setpoint._engine.handlers import HandlerId
from setpoint._engine.index import Index, Store
from setpoint._engine.login import (
    login_via_async_client,
    login_via_client,
    login_via_pykube,
    login_with_kubeconfig,
    login_with_service_account,
)
from setpoint._engine.logs import LocalObjectLogger, LogFormat, Logger, ObjectLogger, configure
from setpoint._engine.memo import Memo
from setpoint._engine.patch import Patch, PatchFn
from setpoint._engine.registry import get_default_registry, set_default_registry
from setpoint._engine.reviews import AdmissionError
from setpoint._engine.selectors import EVERYTHING, Resource
from setpoint._engine.stopped import AsyncDaemonStopped as AsyncDaemonStopperChecker
from setpoint._engine.stopped import DaemonStopped, DaemonStoppingReason
from setpoint._engine.stopped import SyncDaemonStopped as SyncDaemonStopperChecker
from setpoint.kopf import lifecycles, on
from setpoint.kopf._embedding import operator, run, run_tasks, spawn_tasks
from setpoint.kopf._handlers import Reason
from setpoint.kopf._owners import (
    adjust_namespace,
    adopt,
    append_owner_reference,
    harmonize_naming,
    label,
    remove_owner_reference,
)
from setpoint.kopf._settings import OperatorSettings
from setpoint.kopf._storages import (
    AnnotationsDiffBaseStorage,
    AnnotationsProgressStorage,
    DiffBaseStorage,
    MultiDiffBaseStorage,
    MultiProgressStorage,
    ProgressRecord,
    ProgressStorage,
    SmartProgressStorage,
    StatusDiffBaseStorage,
    StatusProgressStorage,
)
from setpoint.kopf._style import OperatorRegistry
from setpoint.kopf._subhandlers import execute
from setpoint.kopf._version import __commit_id__ as __commit_id__, __version__ as __version__, __version_tuple__ as __version_tuple__
from setpoint.kopf._webhooks import (
    Headers,
    Operation,
    SSLPeer,
    UserInfo,
    WebhookAutoServer,
    WebhookAutoTunnel,
    WebhookClientConfig,
    WebhookClientConfigService,
    WebhookDockerDesktopServer,
    WebhookFn,
    WebhookK3dServer,
    WebhookMinikubeServer,
    WebhookNgrokTunnel,
    WebhookServer,
    WebhookServerProtocol,
)
from setpoint.kopf.lifecycles import get_default_lifecycle, set_default_lifecycle
from setpoint.kopf.on import daemon, index, register, subhandler, timer

__all__ = [name for name in dir() if not name.startswith("_")]
