package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HandlerController calls handlers when objects are created, changed or deleted, and on a schedule. A handler receives what happened to an
// object and returns what to write. Setpoint writes it,
// and records what each handler has handled.
//
// +kubebuilder:validation:XValidation:rule="has(self.spec.finalizer) == has(oldSelf.spec.finalizer) && (!has(self.spec.finalizer) || self.spec.finalizer == oldSelf.spec.finalizer) || has(self.spec.replacedFinalizers) && self.spec.replacedFinalizers.exists(f, has(oldSelf.spec.finalizer) ? f == oldSelf.spec.finalizer : f.startsWith('setpoint.dev/handlercontroller-'))",message="must contain the former finalizer, which objects still have",fieldPath=".spec.replacedFinalizers"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=handlercontrollers,scope=Cluster,shortName=sphc,categories=setpoint
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec['resource','resources']..resource`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.parents`
// +kubebuilder:printcolumn:name="Owned",type=integer,JSONPath=`.status.children`
// +kubebuilder:printcolumn:name="Errors",type=integer,JSONPath=`.status.parentsInError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Last Error",type=string,priority=1,JSONPath=`.status.lastError.message`
type HandlerController struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares what to watch, which handlers to call, and what they may write.
	// +required
	Spec HandlerControllerSpec `json:"spec"`

	// status is the observed state of the controller. Its parents are the handled objects, its children
	// the objects that those own.
	// +optional
	Status ControllerStatus `json:"status,omitzero"`
}

// HandlerControllerList is a list of HandlerControllers.
//
// +kubebuilder:object:root=true
type HandlerControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []HandlerController `json:"items"`
}

// HandlerControllerSpec declares what to watch, which handlers to call, and what they may write.
//
// +kubebuilder:validation:XValidation:rule="has(self.owns) || self.handlers.all(h, !has(h.reasons) || !('Drift' in h.reasons))",message="owns is required when a handler has the reason Drift"
// +kubebuilder:validation:XValidation:rule="has(self.index) || size(self.handlers) > 0",message="handlers must not be empty, unless the controller has an index"
// +kubebuilder:validation:XValidation:rule="has(self.resource) != has(self.resources)",message="exactly one of resource and resources is required"
// +kubebuilder:validation:XValidation:rule="!has(self.finalizer) || !has(self.replacedFinalizers) || !(self.finalizer in self.replacedFinalizers)",message="replacedFinalizers must not contain finalizer: Setpoint would remove what it adds"
type HandlerControllerSpec struct {
	// resource selects the handled objects. Exactly one of resource and resources is required.
	// +optional
	Resource HandledResource `json:"resource,omitzero"`

	// resources select the handled objects of several kinds, which have the same handlers. Each kind may be
	// listed once.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=resource
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Resources []HandledResource `json:"resources,omitempty"`

	// handlers are called for each object in this order, one after the other. There may be none if the
	// controller has an index.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Handlers []Handler `json:"handlers"`

	// owns lists the kinds of objects that handlers create for the handled objects. Handlers may apply
	// objects of these kinds, and delete those that the handled object owns. Requests include the owned
	// objects, and the reason Drift reports changes to them.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=64
	Owns []ResourceRule `json:"owns,omitempty"`

	// permissions list what handlers may write besides the objects in owns. A response that writes
	// anything else is refused as a whole.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Permissions []Permission `json:"permissions,omitempty"`

	// finalizer is the finalizer of objects whose deletion waits for a handler. The default is
	// setpoint.dev/handlercontroller-NAME. If you change it, list the former one in replacedFinalizers. Two
	// controllers of one kind must not have the same.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('setpoint.dev/')",message="must not be of setpoint.dev, whose finalizers are those of controllers without this field"
	Finalizer FinalizerName `json:"finalizer,omitempty"`

	// replacedFinalizers are finalizers of a controller that this one replaces. Setpoint removes them from a
	// handled object with its first write, which also adds its own finalizer if the object needs it. Stop
	// the former controller before, or it may add them again.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	ReplacedFinalizers []FinalizerName `json:"replacedFinalizers,omitempty"`

	// replacedAnnotation is an annotation that a controller which this one replaces has left on the objects
	// that it has handled. For such an object, Setpoint calls every handler with the reason Create once, also
	// those that have only Update or Resume as reasons. Remove the annotation with the last response.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	ReplacedAnnotation string `json:"replacedAnnotation,omitempty"`

	// ignoredAnnotationPrefixes are prefixes of annotations, such as example.com/, that handlers do not watch,
	// for example because a controller that this one replaces keeps records there. Annotations of
	// setpoint.dev/, kopf.zalando.org/ and those of kubectl apply are never watched.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	IgnoredAnnotationPrefixes []string `json:"ignoredAnnotationPrefixes,omitempty"`

	// index sends all handled objects to the process of the handlers before it is called for any of them,
	// and then every change before the calls for it, so that handlers can look up other objects.
	// +optional
	Index *HandlerIndex `json:"index,omitempty"`

	// notifications lets the process of the handlers name objects to reconcile.
	// +optional
	Notifications *HandlerNotifications `json:"notifications,omitempty"`

	// endpointConfigs hold connection settings by host, for webhooks without settings of their own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// suspend stops the controller until it is false again. Setpoint calls no handler and writes nothing;
	// handlers receive changes made meanwhile when the controller resumes.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	Identity `json:",inline"`
}

// FinalizerName is the name of a finalizer, such as example.com/cleanup.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be the name of a finalizer, such as example.com/cleanup"
// +kubebuilder:validation:XValidation:rule="!(self in ['foregroundDeletion', 'orphan', 'kubernetes'])",message="must not be a finalizer of Kubernetes itself"
type FinalizerName string

// HandlerIndex is a webhook that receives objects, not calls.
type HandlerIndex struct {
	// webhook receives objects in batches. A failed call is repeated with backoff, and the handlers wait.
	// +required
	Webhook *Webhook `json:"webhook,omitempty"`
}

// HandlerNotifications is a stream of names of objects.
type HandlerNotifications struct {
	// webhook receives one GET, which stays open. Each line of the response names an object. The timeout is
	// that of connecting.
	// +required
	Webhook *Webhook `json:"webhook,omitempty"`
}

// HandledResource selects objects of one kind. An object must match all selectors.
type HandledResource struct {
	ResourceRule `json:",inline"`

	// labelSelector selects objects by their labels. The API server applies it, so Setpoint does not read
	// other objects. The default selects all objects.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// fieldSelector selects objects by their fields, such as spec.nodeName=worker-1. The API server
	// applies it and decides which fields it supports: metadata.name and metadata.namespace for all kinds.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	FieldSelector string `json:"fieldSelector,omitempty"`

	// annotationSelector selects objects by their annotations. The default selects all objects.
	// +optional
	AnnotationSelector *AnnotationSelector `json:"annotationSelector,omitempty"`

	// namespaces are the namespaces of the handled objects. The default is all namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// Permission allows handlers to write objects of one kind.
type Permission struct {
	ResourceRule `json:",inline"`

	// verbs are what handlers may do with the objects: apply, or delete, which includes evicting pods.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Verbs []PermissionVerb `json:"verbs"`

	// namespace limits the permission to one namespace. The default is all namespaces.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// labelSelector limits the permission to objects with matching labels. The default is all objects.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// PermissionVerb is what a handler may do with an object.
//
// +kubebuilder:validation:Enum=apply;delete
type PermissionVerb string

// The verbs of permissions.
const (
	PermissionApply  PermissionVerb = "apply"
	PermissionDelete PermissionVerb = "delete"
)

// Handler is a function, and when to call it.
//
// +kubebuilder:validation:XValidation:rule="(has(self.reasons) && size(self.reasons) > 0) || has(self.every) || has(self.schedule) || has(self.daemon)",message="one of reasons, every, schedule and daemon is required"
// +kubebuilder:validation:XValidation:rule="!has(self.daemon) || !((has(self.reasons) && size(self.reasons) > 0) || has(self.every) || has(self.schedule))",message="daemon excludes reasons, every and schedule: use one handler for each"
// +kubebuilder:validation:XValidation:rule="!has(self.every) || !has(self.schedule)",message="every and schedule are mutually exclusive: use one handler for each"
// +kubebuilder:validation:XValidation:rule="(!has(self.idle) && !has(self.jitter)) || has(self.every) || has(self.schedule)",message="idle and jitter require every or schedule"
// +kubebuilder:validation:XValidation:rule="(!has(self.initialDelay) && (!has(self.sharp) || !self.sharp)) || has(self.every)",message="initialDelay and sharp require every"
// +kubebuilder:validation:XValidation:rule="!has(self.sharp) || !self.sharp || has(self.initialDelay)",message="sharp requires initialDelay: without it, every counts from the creation of the object anyway"
// +kubebuilder:validation:XValidation:rule="!has(self.debounce) || (has(self.reasons) && 'Update' in self.reasons)",message="debounce requires the reason Update"
// +kubebuilder:validation:XValidation:rule="!has(self.fields) || has(self.idle) || (has(self.reasons) && 'Update' in self.reasons)",message="fields requires the reason Update, or idle"
// +kubebuilder:validation:XValidation:rule="!has(self.previousState) || self.previousState == 'Memory' || (has(self.reasons) && 'Update' in self.reasons)",message="previousState Record requires the reason Update"
// +kubebuilder:validation:XValidation:rule="!has(self.optional) || !self.optional || (has(self.reasons) && 'Delete' in self.reasons)",message="optional requires the reason Delete"
// +kubebuilder:validation:XValidation:rule="!has(self.webhook) || !has(self.webhook.etag) || !has(self.webhook.etag.enabled) || !self.webhook.etag.enabled",message="handlers do not support etag: a response belongs to one request"
// +kubebuilder:validation:XValidation:rule="!has(self.daemon) || has(self.webhook)",message="daemon requires webhook: inline and exec hooks run nothing between calls"
type Handler struct {
	// name identifies the handler. Objects record under this name what the handler has handled: a renamed
	// handler handles all objects again.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and dashes, such as publish-rate"
	Name string `json:"name"`

	// displayName names the handler in events, messages and commands, such as a function that name cannot
	// have. The default is name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DisplayName string `json:"displayName,omitempty"`

	// labelSelector selects, by their labels, the objects that this handler handles. The others need no
	// finalizer for it and cause no calls. The default is all objects of the controller.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// annotationSelector selects, by their annotations, the objects that this handler handles. The default is
	// all objects of the controller.
	// +optional
	AnnotationSelector *AnnotationSelector `json:"annotationSelector,omitempty"`

	// when is a CEL expression over object, oldObject and reason, and true for the objects that this handler
	// handles. Like a selector, it also decides about the finalizer: for the reason Delete. oldObject is the
	// object as the handler saw it last, as previousState in requests; null if there is none or it is unknown.
	// An error of its evaluation is one of the object, and the handler is not called.
	// +optional
	When Expression `json:"when,omitempty"`

	// conditional lets the function decide too whether the handler handles an object as it is: its response
	// may be {"applicable": false}. If a deletion would wait for the handler, Setpoint calls it with the
	// reason Match after each change of an object, and adds the finalizer only if it is applicable.
	// +optional
	Conditional bool `json:"conditional,omitempty"`

	// reasons are what the handler is called for.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=6
	Reasons []HandlerReason `json:"reasons,omitempty"`

	// fields are the paths of the watched fields, such as spec.currency, or
	// metadata.annotations["example.com/note"] where a name has dots. A change of another field is not an
	// update and does not reset idle. The default is the whole object except its status and the metadata
	// that the API server sets; labels and annotations are watched.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^([^.\[\]]+|\[(\x22[^\x22]+\x22|\x27[^\x27]+\x27)\])([.][^.\[\]]+|\[(\x22[^\x22]+\x22|\x27[^\x27]+\x27)\])*$")`,message="must be a field path such as spec.template; quote a name that has dots: metadata.annotations['example.com/note']"
	Fields []string `json:"fields,omitempty"`

	// debounce delays the reason Update until no watched field has changed for this long, such as 2s.
	// Several changes within that time are one update; a change that is undone within it is none.
	// +optional
	Debounce PositiveDuration `json:"debounce,omitzero"`

	// previousState is where Setpoint keeps the object as the handler last handled it, to send it with an
	// update. Memory loses it on a restart. Record keeps the watched fields, up to 64 kB for all handlers of
	// the controller, in the annotation or the status of the object that has its record. It requires the reason
	// Update, and does not support Secrets. ControllerRevision is a former name of Record.
	// +optional
	// +kubebuilder:default=Memory
	PreviousState PreviousStateStorage `json:"previousState,omitempty"`

	// every calls the handler at this interval since the creation of the object, such as 1h30m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') || size(self) == 0 || duration(self) >= duration('1s')",message="must be at least 1s"
	Every PositiveDuration `json:"every,omitzero"`

	// initialDelay counts every from when Setpoint first sees the object, in each process, or the object
	// begins to match, instead of its creation: the first call comes this long after, such as 0s or 30s. The
	// next ones come every after the end of a call, or with sharp, after its start.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') && size(self) > 0",message="must be a duration, such as 0s or 1m30s"
	InitialDelay *metav1.Duration `json:"initialDelay,omitempty"`

	// sharp counts every from the start of a call instead of its end. It requires initialDelay.
	// +optional
	Sharp bool `json:"sharp,omitempty"`

	// schedule calls the handler on a cron schedule of five fields (minute, hour, day, month, weekday), or
	// @hourly, @daily, @weekly, @monthly, @yearly. The time zone is UTC unless TZ=Area/City precedes it. A time
	// that daylight saving skips comes right after the gap, and one that it shows twice comes once; if minutes
	// or hours begin with *, the schedule follows the time that passes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^\s*((CRON_)?TZ=[A-Za-z0-9_+/-]+\s+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|(?i:([*?]|(0*[0-5]?[0-9])(-(0*[0-5]?[0-9]))?)(/0*[1-9][0-9]?)?(,([*?]|(0*[0-5]?[0-9])(-(0*[0-5]?[0-9]))?)(/0*[1-9][0-9]?)?)*\s+([*?]|(0*(1?[0-9]|2[0-3]))(-(0*(1?[0-9]|2[0-3])))?)(/0*[1-9][0-9]?)?(,([*?]|(0*(1?[0-9]|2[0-3]))(-(0*(1?[0-9]|2[0-3])))?)(/0*[1-9][0-9]?)?)*\s+([*?]|(0*([1-9]|[12][0-9]|3[01]))(-(0*([1-9]|[12][0-9]|3[01])))?)(/0*[1-9][0-9]?)?(,([*?]|(0*([1-9]|[12][0-9]|3[01]))(-(0*([1-9]|[12][0-9]|3[01])))?)(/0*[1-9][0-9]?)?)*\s+([*?]|(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))?)(/0*[1-9][0-9]?)?(,([*?]|(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))?)(/0*[1-9][0-9]?)?)*\s+([*?]|(0*[0-6]|sun|mon|tue|wed|thu|fri|sat)(-(0*[0-6]|sun|mon|tue|wed|thu|fri|sat))?)(/0*[1-9][0-9]?)?(,([*?]|(0*[0-6]|sun|mon|tue|wed|thu|fri|sat)(-(0*[0-6]|sun|mon|tue|wed|thu|fri|sat))?)(/0*[1-9][0-9]?)?)*))\s*$")`,message="must be a cron expression of five fields (minute 0-59, hour 0-23, day 1-31, month 1-12 or jan-dec, weekday 0-6 or sun-sat), such as 30 4 * * mon-fri, or @hourly, @daily, @weekly, @monthly, @yearly; TZ=Area/City may precede it"
	Schedule string `json:"schedule,omitempty"`

	// idle delays every or schedule until no watched field has changed for this long.
	// +optional
	Idle PositiveDuration `json:"idle,omitzero"`

	// jitter delays every or schedule by up to this much, by a fixed time for each object.
	// +optional
	Jitter PositiveDuration `json:"jitter,omitzero"`

	// retries is how often Setpoint retries a failed call; 0 means never. The default is no limit. After
	// the last retry, Setpoint calls the handler again when the object changes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Retries *int32 `json:"retries,omitempty"`

	// retryTimeout is how long Setpoint retries a failed call. The default is no limit.
	// +optional
	RetryTimeout PositiveDuration `json:"retryTimeout,omitzero"`

	// backoff is the delay between a failed call and its retry.
	// +optional
	// +kubebuilder:default={}
	Backoff Backoff `json:"backoff,omitzero"`

	// optional does not hold the deletion of an object for the handler: there is no finalizer. Setpoint
	// calls the handler once, possibly after the object is gone.
	// +optional
	Optional bool `json:"optional,omitempty"`

	// daemon, instead of reasons, is for something that the process of the handler runs for each object, such
	// as a watch of another system. It requires webhook, which Setpoint calls to start it, when the object changes, and to
	// stop it.
	// +optional
	Daemon *HandlerDaemon `json:"daemon,omitempty"`

	HookCall `json:",inline"`
}

// HandlerDaemon is something that runs for each object in the process of the handler.
type HandlerDaemon struct {
	// stopTimeout is how long a deleted object waits until the daemon has stopped. Default 30s.
	// +optional
	// +kubebuilder:default="30s"
	StopTimeout PositiveDuration `json:"stopTimeout,omitzero"`
}

// PreviousStateStorage is where Setpoint keeps previous states of objects.
//
// +kubebuilder:validation:Enum=Memory;Record;ControllerRevision
type PreviousStateStorage string

// The storages of previous states.
const (
	PreviousStateMemory PreviousStateStorage = "Memory"
	PreviousStateRecord PreviousStateStorage = "Record"
	// PreviousStateControllerRevision is a former name of PreviousStateRecord.
	PreviousStateControllerRevision PreviousStateStorage = "ControllerRevision"
)

// SurvivesRestart reports whether another process knows the previous state too.
func (s PreviousStateStorage) SurvivesRestart() bool {
	return s == PreviousStateRecord || s == PreviousStateControllerRevision
}

// HandlerReason is why a handler is called. Create: for every object, once. Update: a watched field
// changed since the handler last handled the object. Delete: the object is being deleted and waits for the
// handler. Resume: for every object handled before, once after a start. Event: for every change, without
// retries. Drift: another client changed or deleted an object that the handled object owns.
//
// This is a rule instead of an enum: with an invalid enum value, the API server also reports the rules
// that it skipped.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self in ['Create', 'Update', 'Delete', 'Resume', 'Event', 'Drift']",messageExpression="'unknown reason \"' + self + '\": must be one of Create, Update, Delete, Resume, Event and Drift'"
type HandlerReason string

// The reasons of handlers.
const (
	ReasonCreate HandlerReason = "Create"
	ReasonUpdate HandlerReason = "Update"
	ReasonDelete HandlerReason = "Delete"
	ReasonResume HandlerReason = "Resume"
	ReasonEvent  HandlerReason = "Event"
	ReasonDrift  HandlerReason = "Drift"
)

// Backoff doubles from an initial to a maximum delay, with jitter.
//
// +kubebuilder:validation:XValidation:rule="!has(self.initial) || !has(self.max) || ![self.initial, self.max].all(d, d.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') && size(d) > 0) || duration(self.initial) <= duration(self.max)",message="initial must not exceed max"
type Backoff struct {
	// initial is the first delay. Default 1s.
	// +optional
	// +kubebuilder:default="1s"
	Initial PositiveDuration `json:"initial,omitzero"`

	// max is the longest delay. Default 5m.
	// +optional
	// +kubebuilder:default="5m0s"
	Max PositiveDuration `json:"max,omitzero"`
}

// The defaults of a Backoff.
const (
	DefaultBackoffInitial = time.Second
	DefaultBackoffMax     = 5 * time.Minute
)
