"""The public names of Kopf 1.44.6: what its package exports and what its documentation has."""


def _words(text):
    return text.split()


# The names of the package, its __all__ and what it imports besides.
PACKAGE = _words("""
    on lifecycles subhandler register execute daemon timer index
    configure LogFormat
    login_via_pykube login_via_client login_via_async_client login_with_kubeconfig login_with_service_account
    LoginError ConnectionInfo AiohttpSession
    event info warn exception
    spawn_tasks run_tasks operator run
    adopt label harmonize_naming adjust_namespace append_owner_reference remove_owner_reference
    not_ all_ any_ none_
    get_default_lifecycle set_default_lifecycle
    build_object_reference build_owner_reference
    ErrorsMode AdmissionError PermanentError TemporaryError HandlerTimeoutError HandlerRetriesError
    WebhookClientConfigService WebhookClientConfig Operation UserInfo Headers SSLPeer WebhookFn WebhookServerProtocol
    WebhookServer WebhookK3dServer WebhookMinikubeServer WebhookDockerDesktopServer WebhookNgrokTunnel
    WebhookAutoServer WebhookAutoTunnel
    OperatorRegistry get_default_registry set_default_registry
    PRESENT ABSENT
    OperatorSettings
    DiffBaseStorage AnnotationsDiffBaseStorage StatusDiffBaseStorage MultiDiffBaseStorage
    ProgressRecord ProgressStorage AnnotationsProgressStorage StatusProgressStorage MultiProgressStorage
    SmartProgressStorage
    RawEventType RawEvent RawBody Status Spec Meta Body BodyEssence Labels Annotations
    ObjectReference OwnerReference
    Memo Index Store
    Logger ObjectLogger LocalObjectLogger
    FieldSpec FieldPath Diff DiffItem DiffOperation HandlerId Reason Patch PatchFn
    DaemonStopped DaemonStoppingReason SyncDaemonStopperChecker AsyncDaemonStopperChecker
    Resource EVERYTHING
    __version__ __version_tuple__ __commit_id__
""")

ON = _words("""
    startup cleanup login probe validate mutate resume create update delete field index event daemon timer
    subhandler register
""")

LIFECYCLES = _words("all_at_once one_by_one randomized shuffled asap get_default_lifecycle set_default_lifecycle")

TESTING = ["KopfRunner"]

# The arguments of handlers.
ARGUMENTS = _words("""
    retry started runtime param settings resource body spec meta status uid name namespace labels annotations
    logger patch memo event type reason old new diff stopped dryrun operation subresource warnings userinfo headers
    sslpeer
""")

# The arguments of decorators.
OPTIONS = _words("""
    group version kind plural singular shortcut category
    id param errors timeout retries backoff registry
    labels annotations when field value old new
    optional deleted initial_delay interval sharp idle
    cancellation_backoff cancellation_timeout cancellation_polling
    operation operations subresource persistent side_effects ignore_failures
""")

SETTINGS = _words("""
    process.ultimate_exiting_timeout
    posting.enabled posting.loggers posting.level posting.reporting_component posting.reporting_instance
    posting.event_name_prefix
    peering.name peering.stealth peering.priority peering.lifetime peering.mandatory peering.standalone
    peering.clusterwide peering.namespaced
    watching.server_timeout watching.client_timeout watching.connect_timeout watching.reconnect_backoff
    watching.inactivity_timeout
    queueing.worker_limit queueing.idle_timeout queueing.exit_timeout queueing.error_delays queueing.batch_window
    batching
    scanning.disabled
    admission.server admission.managed
    execution.default_backoff execution.executor execution.max_workers
    networking.request_timeout networking.connect_timeout networking.error_backoffs networking.enforce_retry_after
    networking.trust_env
    persistence.finalizer persistence.progress_storage persistence.diffbase_storage persistence.consistency_timeout
    background.cancellation_polling background.instant_exit_timeout background.instant_exit_zero_time_cycles
""")

# The commands and options of the command line.
COMMANDS = _words("run freeze resume")
FLAGS = _words("""
    --module --quiet --verbose --debug --log-format --log-prefix --no-log-prefix --log-refkey
    --namespace --all-namespaces --liveness --standalone --peering --priority --dev
    --id --lifetime --message --version
""")

# The arguments of kopf.run, kopf.operator and kopf.spawn_tasks.
RUN = _words("""
    loop lifecycle indexers registry settings memories insights identity standalone priority peering_name
    liveness_endpoint clusterwide namespaces namespace stop_flag ready_flag vault memo
""")
