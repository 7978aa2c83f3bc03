package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HandlerController does something when objects of one kind are created, changed or deleted, and by the
// clock. A handler is told what happened to an object and answers what is to be done; Setpoint does it,
// and remembers what each handler has dealt with.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=handlercontrollers,scope=Cluster,shortName=sphc,categories=setpoint
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.resource.resource`
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

	// spec says what to watch, whom to tell, and what may be written.
	// +required
	Spec HandlerControllerSpec `json:"spec"`

	// status says how the controller is doing. The parents it speaks of are the handled objects, the
	// children the objects that those own.
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

// HandlerControllerSpec says what to watch, whom to tell, and what may be written.
//
// +kubebuilder:validation:XValidation:rule="has(self.owns) || self.handlers.all(h, !has(h.reasons) || !('drift' in h.reasons))",message="a handler with the reason drift hears of the kinds in owns: name some"
type HandlerControllerSpec struct {
	// resource says which objects are handled.
	// +required
	Resource HandledResource `json:"resource"`

	// handlers are told in this order, one after the other, of each object.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Handlers []Handler `json:"handlers"`

	// owns lists the kinds of objects that are made for the handled ones. Handlers may apply any of
	// them, and delete those that the handled object owns. They are shown what it owns, and may be told
	// when it drifts.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=64
	Owns []ResourceRule `json:"owns,omitempty"`

	// mayApply lists what else handlers may apply. An answer that applies anything else is refused whole.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MayApply []WriteRule `json:"mayApply,omitempty"`

	// mayDelete lists what else handlers may delete, or evict. An answer that deletes anything else is
	// refused whole.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MayDelete []WriteRule `json:"mayDelete,omitempty"`

	// endpointConfigs hold connection settings by host, for webhooks that have none of their own.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=32
	EndpointConfigs []EndpointConfig `json:"endpointConfigs,omitempty"`

	// suspend leaves all objects as they are, until it is taken back. No handler is told anything; what
	// has changed meanwhile, they are told then.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// HandledResource names a kind of objects, and which of them. An object must match all selectors.
type HandledResource struct {
	ResourceRule `json:",inline"`

	// labelSelector leaves out objects whose labels do not match. The API server applies it: the others
	// are not even read. Without it all labels do.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// fieldSelector leaves out objects whose fields do not match, such as spec.nodeName=worker-1. The
	// API server applies it, and says which fields it takes: metadata.name and metadata.namespace of all
	// kinds.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	FieldSelector string `json:"fieldSelector,omitempty"`

	// annotationSelector leaves out objects whose annotations do not match. Without it all do.
	// +optional
	AnnotationSelector *AnnotationSelector `json:"annotationSelector,omitempty"`

	// namespaces are those whose objects are handled. Without it all are.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// WriteRule names objects that handlers may write.
type WriteRule struct {
	ResourceRule `json:",inline"`

	// namespace is where. Without it everywhere.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// labelSelector must match what is applied, and what is deleted. Without it all labels do.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// Handler is whom to tell what, and when.
//
// +kubebuilder:validation:XValidation:rule="(has(self.reasons) && size(self.reasons) > 0) || has(self.every) || has(self.schedule)",message="say when: by reasons, every or schedule"
// +kubebuilder:validation:XValidation:rule="!has(self.every) || !has(self.schedule)",message="set at most one of every and schedule; give each a handler"
// +kubebuilder:validation:XValidation:rule="(!has(self.idle) && !has(self.jitter)) || has(self.every) || has(self.schedule)",message="idle and jitter go with every or schedule"
// +kubebuilder:validation:XValidation:rule="!has(self.settle) || (has(self.reasons) && 'update' in self.reasons)",message="settle goes with update"
// +kubebuilder:validation:XValidation:rule="!has(self.fields) || has(self.idle) || (has(self.reasons) && 'update' in self.reasons)",message="fields go with update, or with idle: they say what a change is"
// +kubebuilder:validation:XValidation:rule="!has(self.old) || self.old != 'ControllerRevision' || (has(self.reasons) && 'update' in self.reasons)",message="old goes with update: a ControllerRevision is kept to tell how an update differs"
// +kubebuilder:validation:XValidation:rule="!has(self.optional) || !self.optional || (has(self.reasons) && 'delete' in self.reasons)",message="optional goes with delete"
// +kubebuilder:validation:XValidation:rule="!has(self.webhook.etag) || !has(self.webhook.etag.enabled) || !self.webhook.etag.enabled",message="etag is for hooks that answer what should be; an answer to what has happened cannot be used again"
type Handler struct {
	// name tells the handler apart. It is also by this name that objects remember what the handler has
	// dealt with: under another name, it is told of all of them anew.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a name is made of small letters, digits and dashes, such as publish-rate"
	Name string `json:"name"`

	// reasons are what it is told for. (Not "on": YAML takes that word for true.)
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=6
	Reasons []HandlerReason `json:"reasons,omitempty"`

	// fields are paths of the fields it watches, such as spec.currency, or
	// metadata.annotations["example.com/note"] where a name has dots. A change of anything else is no
	// update, and does not end a time of being idle. Default is all of the object but its status and
	// what others keep in its metadata: labels and annotations count.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule=`self.matches(r"^([^.\[\]]+|\[(\x22[^\x22]+\x22|\x27[^\x27]+\x27)\])([.][^.\[\]]+|\[(\x22[^\x22]+\x22|\x27[^\x27]+\x27)\])*$")`,message="a path is names of fields with dots between them, such as spec.template; one that has dots itself is written as metadata.annotations['example.com/note']"
	Fields []string `json:"fields,omitempty"`

	// settle holds an update back until no watched field has changed for so long, such as 2s. Several
	// changes in a moment are told as one, and one that is undone in it is none.
	// +optional
	Settle PositiveDuration `json:"settle,omitzero"`

	// old says where it is kept how an object was when the handler last dealt with it, so that an update
	// can be told with what was before. Memory loses it with a restart. ControllerRevision keeps
	// the watched fields in a ControllerRevision that belongs to the object, for those to read who may read
	// these; it goes with update, takes two more writes for each, and is not for Secrets.
	// +optional
	// +kubebuilder:default=Memory
	Old PreviousStateStorage `json:"old,omitempty"`

	// every tells it by the clock, at this interval since the object was created, such as 1h30m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') || size(self) == 0 || duration(self) >= duration('1s')",message="every is at least 1s"
	Every PositiveDuration `json:"every,omitzero"`

	// schedule tells it by the calendar: a cron expression of five fields (minute, hour, day, month,
	// weekday), or @hourly, @daily, @weekly, @monthly, @yearly. In UTC, unless
	// TZ=Area/City comes before it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^\s*((CRON_)?TZ=[A-Za-z0-9_+/-]+\s+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|(?i:([*?]|(0*[0-5]?[0-9])(-(0*[0-5]?[0-9]))?)(/0*[1-9][0-9]?)?(,([*?]|(0*[0-5]?[0-9])(-(0*[0-5]?[0-9]))?)(/0*[1-9][0-9]?)?)*\s+([*?]|(0*(1?[0-9]|2[0-3]))(-(0*(1?[0-9]|2[0-3])))?)(/0*[1-9][0-9]?)?(,([*?]|(0*(1?[0-9]|2[0-3]))(-(0*(1?[0-9]|2[0-3])))?)(/0*[1-9][0-9]?)?)*\s+([*?]|(0*([1-9]|[12][0-9]|3[01]))(-(0*([1-9]|[12][0-9]|3[01])))?)(/0*[1-9][0-9]?)?(,([*?]|(0*([1-9]|[12][0-9]|3[01]))(-(0*([1-9]|[12][0-9]|3[01])))?)(/0*[1-9][0-9]?)?)*\s+([*?]|(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))?)(/0*[1-9][0-9]?)?(,([*?]|(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(-(0*([1-9]|1[0-2])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))?)(/0*[1-9][0-9]?)?)*\s+([*?]|(0*[0-6]|sun|mon|tue|wed|thu|fri|sat)(-(0*[0-6]|sun|mon|tue|wed|thu|fri|sat))?)(/0*[1-9][0-9]?)?(,([*?]|(0*[0-6]|sun|mon|tue|wed|thu|fri|sat)(-(0*[0-6]|sun|mon|tue|wed|thu|fri|sat))?)(/0*[1-9][0-9]?)?)*))\s*$")`,message="schedule is a cron expression of five fields (minute 0-59, hour 0-23, day 1-31, month 1-12 or jan-dec, weekday 0-6 or sun-sat), such as 30 4 * * mon-fri, or @hourly, @daily, @weekly, @monthly, @yearly; TZ=Area/City may come before it"
	Schedule string `json:"schedule,omitempty"`

	// idle holds every or schedule back until no watched field has changed for so long.
	// +optional
	Idle PositiveDuration `json:"idle,omitzero"`

	// jitter spreads every or schedule by up to so much, for each object by a time of its own.
	// +optional
	Jitter PositiveDuration `json:"jitter,omitzero"`

	// retries is how often a call that failed is made again, 0 for not at all. Without it there is no
	// limit. A handler that has run out of them is not told until the object changes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Retries *int32 `json:"retries,omitempty"`

	// within is for how long a call that fails is made again. Without it there is no limit.
	// +optional
	Within PositiveDuration `json:"within,omitzero"`

	// backoff is the time between a call that failed and the next.
	// +optional
	// +kubebuilder:default={}
	Backoff Backoff `json:"backoff,omitzero"`

	// optional lets an object go that is being deleted, without waiting for the handler. It is told of it
	// once, maybe when the object is gone already.
	// +optional
	Optional bool `json:"optional,omitempty"`

	// webhook is told over HTTP. Its timeout is that of one call.
	// +required
	Webhook *Webhook `json:"webhook,omitempty"`
}

// PreviousStateStorage is where it is kept how objects were.
//
// +kubebuilder:validation:Enum=Memory;ControllerRevision
type PreviousStateStorage string

// The places to keep it.
const (
	PreviousStateMemory             PreviousStateStorage = "Memory"
	PreviousStateControllerRevision PreviousStateStorage = "ControllerRevision"
)

// HandlerReason is what a handler can be told: create of every object, once; update when a watched field
// is another than the handler last dealt with; delete when an object is to be deleted, which waits for it;
// resume of every object that was dealt with before, once after a start; event of every change, without a second try; drift when
// somebody else changes or deletes what an object owns.
//
// A rule, and no enumeration: beside a value that is none of an enumeration, the API server complains
// of rules that it did not check.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self in ['create', 'update', 'delete', 'resume', 'event', 'drift']",messageExpression="'\"' + self + '\" is no reason; the reasons are create, update, delete, resume, event and drift'"
type HandlerReason string

// The reasons that can be chosen.
const (
	ReasonCreate HandlerReason = "create"
	ReasonUpdate HandlerReason = "update"
	ReasonDelete HandlerReason = "delete"
	ReasonResume HandlerReason = "resume"
	ReasonEvent  HandlerReason = "event"
	ReasonDrift  HandlerReason = "drift"
)

// Backoff grows from one time to another, doubling, with some jitter.
//
// +kubebuilder:validation:XValidation:rule="!has(self.initial) || !has(self.max) || ![self.initial, self.max].all(d, d.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') && size(d) > 0) || duration(self.initial) <= duration(self.max)",message="initial is at most max"
type Backoff struct {
	// initial is the first. Default 1s.
	// +optional
	// +kubebuilder:default="1s"
	Initial PositiveDuration `json:"initial,omitzero"`

	// max is the longest. Default 5m.
	// +optional
	// +kubebuilder:default="5m0s"
	Max PositiveDuration `json:"max,omitzero"`
}

// PositiveDuration is a time of more than nothing, as a duration such as 500ms or 1h30m.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?h)?([0-9]{1,7}([.][0-9]{1,9})?m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?([0-9]{1,15}([.][0-9]{1,9})?(us|µs))?([0-9]{1,18}([.][0-9]{1,9})?ns)?$') && size(self) > 0 && duration(self) > duration('0s')",message="must be a duration of more than 0s, such as 500ms or 1h30m"
type PositiveDuration struct {
	metav1.Duration `json:",inline"`
}

// The defaults of a Backoff.
const (
	DefaultBackoffInitial = time.Second
	DefaultBackoffMax     = 5 * time.Minute
)
