package setpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// objectContext is what Call and ComposeContext have in common: the object, and events,
// conditions, a message and a requeue for it.
type objectContext struct {
	controller *controller
	// functionName is the name of the function.
	functionName string
	metadata     objectMeta
	report       objectReport
	// nameCounts counts the generated names of a kind and prefix.
	nameCounts map[string]int
	problems   []error
}

// objectReport is what a function reports for an object.
type objectReport struct {
	events       []hook.Event
	conditions   []hook.Condition
	message      string
	requeueAfter time.Duration
}

// objectMeta is the metadata that the SDK reads, independent of the Go type.
type objectMeta struct {
	Namespace, Name, UID string
	Labels               map[string]string
}

// newObjectContext returns the context of an object, which was decoded from data.
func newObjectContext(c *controller, by string, o any, data json.RawMessage) (objectContext, error) {
	s := objectContext{controller: c, functionName: by, nameCounts: map[string]int{}}
	if typed, is := o.(metav1.Object); is {
		s.metadata = metaOf(typed)
		return s, nil
	}
	var err error
	if s.metadata, err = readMeta(data); err != nil {
		return objectContext{}, permanentError("read the object's metadata: %w", err)
	}
	return s, nil
}

func metaOf(o metav1.Object) objectMeta {
	// The labels are the handler's to change.
	return objectMeta{o.GetNamespace(), o.GetName(), string(o.GetUID()), maps.Clone(o.GetLabels())}
}

func readMeta(data []byte) (objectMeta, error) {
	var read struct{ Metadata objectMeta }
	err := json.Unmarshal(data, &read)
	return read.Metadata, err
}

// ref names the object in logs.
func (s *objectContext) ref() string {
	return object.Ref{Kind: object.Kind{Kind: s.controller.kind.kind}, Namespace: s.metadata.Namespace, Name: s.metadata.Name}.String()
}

func (s *objectContext) logger() *slog.Logger {
	return s.controller.app.logger().With("controller", s.controller.name(), "object", s.ref())
}

// Event records a Kubernetes Event on the object. The reason is one word in CamelCase,
// the message a sentence.
func (s *objectContext) Event(reason, format string, args ...any) {
	s.addEvent("Normal", reason, fmt.Sprintf(format, args...))
}

// Warn is Event with type Warning.
func (s *objectContext) Warn(reason, format string, args ...any) {
	s.addEvent("Warning", reason, fmt.Sprintf(format, args...))
}

func (s *objectContext) addEvent(kind, reason, message string) {
	s.report.events = append(s.report.events, hook.Event{Type: kind, Reason: reason, Message: message})
}

// Condition sets a condition of the object's status by its type. It uses Type, Status,
// Reason and Message; Setpoint sets the transition time and the observed generation.
func (s *objectContext) Condition(condition metav1.Condition) {
	s.report.conditions = append(s.report.conditions, hook.Condition{
		Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
	})
}

// Message sets a sentence on the state of the object.
func (s *objectContext) Message(format string, args ...any) {
	s.report.message = fmt.Sprintf(format, args...)
}

// Requeue calls the function again after this time, or when the object changes otherwise,
// although its writes succeed. Requeue(0) and a negative time mean immediately, through
// the rate limiter: handlers after their Backoff, functions of Compose once a second.
func (s *objectContext) Requeue(after time.Duration) {
	s.report.requeueAfter = max(after, hook.Immediately)
}

// fail adds a problem, which fails the call.
func (s *objectContext) fail(format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf(format, args...))
}

// err returns all problems as one permanent error.
func (s *objectContext) err() error {
	if len(s.problems) == 0 {
		return nil
	}
	return Permanent(errors.Join(s.problems...))
}

// marshalObject returns an object to write, or nil after a problem.
func (s *objectContext) marshalObject(verb string, o any, list []kind, opts applySettings) json.RawMessage {
	k, err := s.checkDeclared(o, verb, list)
	if err != nil {
		s.fail("%w", err)
		return nil
	}
	data, err := json.Marshal(o)
	if err == nil {
		data, err = s.complete(data, k, opts)
	}
	if err != nil {
		s.fail("%s: write the %s as JSON: %w", verb, k.kind, err)
		return nil
	}
	return data
}

// complete adds what the Go value may omit, and removes fields that Go types write
// although they are unset.
func (s *objectContext) complete(data []byte, k kind, opts applySettings) ([]byte, error) {
	all, err := readMembers(data)
	if err != nil {
		return nil, err
	}
	var metadata members
	if text := all.text("metadata"); text != nil && !isNull(text) {
		if metadata, err = readMembers(text); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	if metadata, err = s.defaultMetadata(metadata.without(serverFields...), k, opts); err != nil {
		return nil, err
	}
	head := members{{[]byte(`"apiVersion"`), quoted(k.apiVersion)}, {[]byte(`"kind"`), quoted(k.kind)},
		{[]byte(`"metadata"`), metadata.JSON()}}
	return dropNullTimestamps(append(head, all.without("apiVersion", "kind", "metadata", "status")...).JSON())
}

// serverFields are metadata that only the API server sets.
var serverFields = []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation"}

// defaultMetadata adds the name and the labels that an object gets from the handled one.
func (s *objectContext) defaultMetadata(metadata members, k kind, opts applySettings) (members, error) {
	if textOf(metadata.text("name")) == "" {
		name := s.generateName(textOf(metadata.text("generateName")), k)
		metadata = metadata.without("generateName").with("name", quoted(name))
	}
	if !opts.copyLabels || len(s.metadata.Labels) == 0 {
		return metadata, nil
	}
	all := maps.Clone(s.metadata.Labels)
	if own := metadata.text("labels"); own != nil && !isNull(own) {
		if err := json.Unmarshal(own, &all); err != nil {
			return nil, fmt.Errorf("metadata.labels: %w", err)
		}
	}
	text, err := json.Marshal(all)
	return metadata.with("labels", text), err
}

// generateName returns a name that depends on the object, the handler and the number of
// such names in the call.
func (s *objectContext) generateName(prefix string, k kind) string {
	if prefix == "" {
		return s.metadata.Name
	}
	of := k.String() + " " + prefix
	s.nameCounts[of]++
	sum := sha256.Sum256([]byte(s.metadata.UID + " " + s.ref() + " " + s.functionName + " " + of + " " + strconv.Itoa(s.nameCounts[of])))
	return prefix + hex.EncodeToString(sum[:5])
}

// checkDeclared returns the kind of an object, which must be declared.
func (s *objectContext) checkDeclared(o any, verb string, list []kind) (kind, error) {
	known, err := s.controller.app.kinds()
	if err != nil {
		return kind{}, err
	}
	k, err := known.of(o)
	if err != nil {
		return kind{}, fmt.Errorf("%s: %w", verb, err)
	}
	if declares(s.controller.owns, k) || declares(list, k) {
		return k, nil
	}
	declare := map[string]string{"Apply": "Owns or Applies", "ComposeContext.Apply": "Owns"}[verb]
	return kind{}, fmt.Errorf("%s: declare %s with %s", verb, k, cmp.Or(declare, "Owns or Deletes"))
}
