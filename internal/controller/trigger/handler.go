package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Handler is one handler and its triggers.
type Handler struct {
	// Name is unique in its program and stable across releases: the record has handlers by name.
	Name string
	// DisplayName, if not empty, replaces the name in what users read.
	DisplayName string
	// FormerNames are earlier names of the handler, whose entries in records it takes over.
	FormerNames []string
	// On are the reasons for a call. Every and Schedule imply hook.ReasonTimer, and a Daemon has no reason.
	On []hook.Reason
	// Fields are the watched fields, such as {"spec", "currency"}. If empty, the handler watches the whole object
	// except the status and system metadata: labels and annotations count, managed fields and versions do not.
	Fields [][]string
	// IgnoredAnnotations are prefixes of annotations that the handler does not watch. They are the same
	// for all handlers of a program.
	IgnoredAnnotations []string
	// KeepPreviousState stores the watched fields in the record, so that an update has the previous state even after a
	// restart, unless they are too large. See ValidateKeepPreviousState.
	KeepPreviousState bool
	// When is the handler's condition; nil always matches. The old object is nil if it does not exist or is unknown.
	When func(old, now *object.Object) bool
	// Expression is a further condition, which also has the reason of the call; nil for none. If it fails, that is
	// an error of the object, and the handler is not called.
	Expression func(reason hook.Reason, old, now *object.Object) (bool, error)
	// Conditional means that responses may be NotApplicable. If a deletion waits for the handler,
	// it is called with hook.ReasonMatch once per state of an object.
	Conditional bool
	// Every calls the handler at an interval, Schedule by a calendar. At most one is set.
	Every    time.Duration
	Schedule Schedule
	// FromFirstSeen counts Every from when the object is first seen, or begins to match, in this
	// process instead of its creation. InitialDelay is then the time to the first call, and Sharp
	// counts the next ones from the start of a call instead of its end.
	FromFirstSeen bool
	InitialDelay  time.Duration
	Sharp         bool
	// Idle delays a timer until no watched field has changed for this long.
	Idle time.Duration
	// Debounce delays an update until no watched field has changed for this long.
	Debounce time.Duration
	// Jitter spreads the times of a timer by up to this much.
	Jitter time.Duration
	// Daemon, if set, runs while the object exists and matches. Its context ends then.
	Daemon Daemon
	// StopTimeout is how long a deleted object waits for a daemon after its context ended; DefaultStopTimeout if zero.
	StopTimeout time.Duration
	// Timeout limits one call through its context; 0 for no limit.
	Timeout time.Duration
	// Retries is the maximum number of retries of a failed call; no limit if zero, none if
	// negative. RetryTimeout limits their time.
	Retries      int
	RetryTimeout time.Duration
	// Backoff doubles from the first value to the second, with jitter; 1s and 5m if zero.
	Backoff, MaxBackoff time.Duration
	// Optional lets a deletion continue after this Delete handler gave up.
	Optional bool
	// Do is the handler to call; for a daemon nil, or what CallDaemon calls.
	Do hook.Handler
}

// ValidateKeepPreviousState returns an error if the fields of a kind must not be stored in records.
func ValidateKeepPreviousState(kind object.GroupKind) error {
	if kind.IsSecret() {
		return errors.New("an annotation with fields of a Secret would show its data; its previous state is kept in memory only")
	}
	return nil
}

// Title returns the name that users read.
func (h *Handler) Title() string { return cmp.Or(h.DisplayName, h.Name) }

// Schedule is a calendar, such as a cron expression.
type Schedule interface {
	// Next returns the first time after t.
	Next(t time.Time) time.Time
}

// Daemon runs for one object until its context ends. The request has the object at the start; of has it from then on,
// and writes. A daemon that returns nil is not restarted; one that fails is, after a backoff.
type Daemon func(ctx context.Context, n *hook.HandlerRequest, of Live) error

// Live is the object of a running daemon.
type Live interface {
	// Updates receives when the object differs from what the daemon last saw, apart from the records of handlers.
	Updates() <-chan struct{}
	// Current returns the request for the current object, with what it owns.
	Current() (*hook.HandlerRequest, error)
	// Respond writes a response to the current object and returns the stored object. It writes nothing, and fails, if the
	// response sets a field that changed since the daemon last saw the object.
	Respond(response *hook.HandlerResponse) (*hook.HandlerRequest, error)
}

func (h *Handler) handles(reason hook.Reason) bool { return slices.Contains(h.On, reason) }

// Holds evaluates the conditions of a handler.
func (h *Handler) Holds(reason hook.Reason, old, now *object.Object) (bool, error) {
	switch {
	case h.When != nil && !h.When(old, now):
		return false, nil
	case h.Expression == nil:
		return true, nil
	}
	return h.Expression(reason, old, now)
}

// mayHold is true unless the conditions are certainly false: a deletion waits until it is known.
func (h *Handler) mayHold(reason hook.Reason, old, now *object.Object) bool {
	holds, err := h.Holds(reason, old, now)
	return holds || err != nil
}

func (h *Handler) isTimer() bool { return h.Every > 0 || h.Schedule != nil }

// mayBeCalled reports whether the handler would be called for an object that it has not seen before. An expression
// that fails without a previous object is one about changes.
func (h *Handler) mayBeCalled(reason hook.Reason, o *object.Object) bool {
	holds, err := h.Holds(reason, nil, o)
	return holds && err == nil
}

func (h *Handler) lastReason() hook.Reason {
	if h.Daemon != nil {
		return hook.ReasonDaemon
	}
	return hook.ReasonDelete
}

// changeReasons are the reasons that depend on an entry. If several apply, the handler is
// called for the first. A handler with one of them gets an entry at first sight.
var changeReasons = [...]hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume, hook.ReasonDrift}

// NeedsFinalizer reports whether a deletion waits for the handler.
func (h *Handler) NeedsFinalizer() bool {
	return h.Daemon != nil || h.handles(hook.ReasonDelete) && !h.Optional
}

// needsMatch reports whether Setpoint must know in advance if the handler is applicable: before a
// deletion, or to start a daemon.
func (h *Handler) needsMatch() bool { return h.Conditional && h.NeedsFinalizer() }

// WatchesStatus reports whether the handler watches a field of the status. A handler that
// watches the whole object does not.
func (h *Handler) WatchesStatus() bool {
	return slices.ContainsFunc(h.Fields, func(path []string) bool { return len(path) == 0 || path[0] == "status" })
}

// ParseField parses the path of a field that a handler can watch.
func ParseField(text string) ([]string, error) {
	path, err := object.ParsePath(text)
	if err != nil {
		return nil, err
	}
	if isSystemField(path) {
		return nil, fmt.Errorf("%q never changes or changes with every write; use fields of spec or status, labels or annotations", text)
	}
	return path, nil
}

func isSystemField(path []string) bool {
	switch path[0] {
	case "apiVersion", "kind":
		return true
	case "metadata":
		return len(path) == 1 || path[1] != "labels" && path[1] != "annotations" && path[1] != "ownerReferences"
	}
	return false
}

// annotationPrefix is that of Setpoint's own annotations, kopfAnnotationPrefix that of Kopf's
// records, and lastAppliedAnnotation is kubectl's. Handlers never watch them: two controllers
// that did would trigger each other forever.
const (
	annotationPrefix      = "setpoint.dev/"
	kopfAnnotationPrefix  = "kopf.zalando.org/"
	lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// WatchedFields returns the part of an object that a handler watches.
func (h *Handler) WatchedFields(o *object.Object) map[string]any {
	if len(h.Fields) == 0 {
		return watchableFields(o, h.IgnoredAnnotations...)
	}
	part := map[string]any{}
	for _, path := range h.Fields {
		if text := o.Field(path...); text != nil {
			var value any
			// The object was parsed before, so its parts are valid.
			_ = utiljson.Unmarshal(text, &value)
			object.SetField(part, value, path...)
		}
	}
	removeBookkeeping(part, h.IgnoredAnnotations...)
	return part
}

// Watches reports whether the handler watches a field or a part of it.
func (h *Handler) Watches(path []string) bool {
	if len(h.Fields) > 0 {
		return slices.ContainsFunc(h.Fields, func(watched []string) bool {
			return len(watched) <= len(path) && slices.Equal(watched, path[:len(watched)])
		})
	}
	switch path[0] {
	case "apiVersion", "kind", "status":
		return false
	case "metadata":
		return len(path) > 1 && (path[1] == "labels" || path[1] == "annotations")
	}
	return true
}

// watchableFields returns an object without its status and the metadata of other controllers, such as
// annotations with the ignored prefixes.
func watchableFields(o *object.Object, ignored ...string) map[string]any {
	whole := object.DecodeOrEmpty(o.JSON())
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(whole, name)
	}
	metadata, _ := whole["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return name != "labels" && name != "annotations" })
	removeBookkeeping(whole, ignored...)
	return whole
}

// removeBookkeeping removes unwatched annotations and records in the status, and the objects that are empty then.
func removeBookkeeping(whole map[string]any, ignored ...string) {
	metadata, _ := whole["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(key string, _ any) bool {
		return key == lastAppliedAnnotation || strings.HasPrefix(key, annotationPrefix) ||
			strings.HasPrefix(key, kopfAnnotationPrefix) ||
			slices.ContainsFunc(ignored, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	for _, name := range []string{"labels", "annotations"} {
		if members, isObject := metadata[name].(map[string]any); isObject && len(members) == 0 {
			delete(metadata, name)
		}
	}
	if metadata != nil && len(metadata) == 0 {
		delete(whole, "metadata")
	}
	status, isObject := whole["status"].(map[string]any)
	delete(status, lasthandled.StatusField)
	if isObject && len(status) == 0 {
		delete(whole, "status")
	}
}

// Differs reports whether more of an object differs than the records of handlers, which Setpoint
// writes after each call.
func Differs(old, now *object.Object) bool {
	return old.Digest() != now.Digest() && !reflect.DeepEqual(withoutRecords(old), withoutRecords(now))
}

func withoutRecords(o *object.Object) map[string]any {
	whole := object.DecodeOrEmpty(o.JSON())
	metadata, _ := whole["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	removeBookkeeping(whole)
	return whole
}

// Changes returns how the fields that a handler watches differ, sorted by path.
func (h *Handler) Changes(old, now *object.Object) []hook.FieldChange {
	if old == nil || now == nil || old == now {
		return nil
	}
	before, after := h.WatchedFields(old), h.WatchedFields(now)
	// Metadata always exist. They only look deleted when nothing watched remains in them.
	for _, side := range []map[string]any{before, after} {
		if side["metadata"] == nil {
			side["metadata"] = map[string]any{}
		}
	}
	return changes(before, after)
}

// Compare returns how two JSON objects differ, sorted by path.
func Compare(old, now json.RawMessage) []hook.FieldChange {
	return changes(object.DecodeOrEmpty(old), object.DecodeOrEmpty(now))
}

func changes(old, now map[string]any) []hook.FieldChange {
	return lists.Map(object.Changes(old, now), func(change object.FieldChange) hook.FieldChange { return hook.FieldChange(change) })
}

// countedDigest returns a digest of the fields that the generation of a custom resource counts.
func countedDigest(o *object.Object) string {
	whole := object.DecodeOrEmpty(o.JSON())
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(whole, name)
	}
	return lasthandled.Digest(whole)
}

// deploymentRevision is an annotation that Kubernetes sets on each rollout of a Deployment.
const deploymentRevision = "deployment.kubernetes.io/revision"

func ownedObjectDigest(o *object.Object) string {
	return o.Ref().String() + " " + lasthandled.Digest(watchableFields(o, deploymentRevision))
}

// Reasons of events on handled objects, and of the condition Handled.
const (
	// ReasonHandled goes with status True.
	ReasonHandled = "Handled"
	// ReasonHandlerFailed: a handler failed; Setpoint retries. What to do: see the error in the message, and the log
	// of the process.
	ReasonHandlerFailed = "HandlerFailed"
	// ReasonExpressionFailed: the expression in when of a handler failed, so it is not known whether the handler
	// handles the object. Setpoint evaluates it again when the object changes. What to do: correct the expression,
	// such as with has() for a field that may be missing.
	ReasonExpressionFailed = "ExpressionFailed"
	// ReasonGaveUp: the retries of a handler are exhausted, or its error is permanent. Setpoint calls it again when a
	// watched field changes. What to do: mend what the error says, then `setpoint reconcile` the object or change a
	// watched field.
	ReasonGaveUp = "HandlerGaveUp"
	// ReasonInvalidResponse: the response of a handler is invalid or not permitted; the message has the field path.
	// What to do: correct the response at that path. Nothing of it was applied.
	ReasonInvalidResponse = "InvalidResponse"
	// ReasonConflicting: the object changes more than once a second for long, so Setpoint throttles its handlers. The
	// message names the handler and the fields. What to do: do not watch fields that the handlers, or another client,
	// change all the time.
	ReasonConflicting = "Conflicting"
	// ReasonPreviousStateNotStored: the watched fields of a handler are too large for the record, so the previous
	// state is unknown after a restart. What to do: nothing, unless the handler needs the previous state: then watch
	// fewer fields.
	ReasonPreviousStateNotStored = "PreviousStateNotStored"
	// ReasonEvictionRefused: a PodDisruptionBudget has refused an eviction for ten seconds; Setpoint retries. What to
	// do: wait for the pods of the budget to be ready, or change the budget.
	ReasonEvictionRefused = "EvictionRefused"
	// ReasonDaemonStuck: a daemon did not return within its stop timeout. What to do: make the daemon return when its
	// context is canceled, or in Python when stopped is set.
	ReasonDaemonStuck = "DaemonStuck"
	// ReasonConflictResolved: the object has not changed for a minute, and Setpoint no longer throttles its handlers.
	// What to do: nothing.
	ReasonConflictResolved = "ConflictResolved"
)

// ConditionHandled is True when all handlers of an object have succeeded. Setpoint sets it
// only if the status has conditions.
const ConditionHandled = "Handled"
