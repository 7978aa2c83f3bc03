"""Kopf's public names. A script that imports `kopf` runs unchanged."""

from setpoint.kopf import lifecycles, on
from setpoint.kopf._admission import AdmissionError
from setpoint.kopf._bodies import (
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
from setpoint.kopf._credentials import AiohttpSession, ConnectionInfo, LoginError
from setpoint.kopf._dicts import FieldPath, FieldSpec
from setpoint.kopf._diffs import Diff, DiffItem, DiffOperation
from setpoint.kopf._embedding import operator, run, run_tasks, spawn_tasks
from setpoint.kopf._errors import (
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from setpoint.kopf._events import event, exception, info, warn
from setpoint.kopf._filters import ABSENT, PRESENT, all_, any_, none_, not_
from setpoint.kopf._handlers import HandlerId, Reason
from setpoint.kopf._index import Index, Store
from setpoint.kopf._logging import LocalObjectLogger, LogFormat, Logger, ObjectLogger, configure
from setpoint.kopf._login import (
    login_via_async_client,
    login_via_client,
    login_via_pykube,
    login_with_kubeconfig,
    login_with_service_account,
)
from setpoint.kopf._memo import Memo
from setpoint.kopf._owners import (
    adjust_namespace,
    adopt,
    append_owner_reference,
    harmonize_naming,
    label,
    remove_owner_reference,
)
from setpoint.kopf._patch import Patch, PatchFn
from setpoint.kopf._registry import OperatorRegistry, get_default_registry, set_default_registry
from setpoint.kopf._selectors import EVERYTHING, Resource
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
from setpoint.kopf._stopped import AsyncDaemonStopped as AsyncDaemonStopperChecker
from setpoint.kopf._stopped import DaemonStopped, DaemonStoppingReason
from setpoint.kopf._stopped import SyncDaemonStopped as SyncDaemonStopperChecker
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
