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

// statement is what a function has to say of an object beside what is to be
// written: what a Call and a Family have in common.
type statement struct {
	controller *controller
	// by is the name of the function.
	by      string
	handled handled
	said    said
	// names counts the generated names of a kind and prefix.
	names    map[string]int
	problems []error
}

// said is what is told of an object.
type said struct {
	events     []hook.Event
	conditions []hook.Condition
	message    string
	again      time.Duration
}

// handled is what is looked at of the object, whatever its Go type knows of it.
type handled struct {
	Namespace, Name, UID string
	Labels               map[string]string
}

// newStatement is about an object, which has been read from data.
func newStatement(c *controller, by string, o any, data json.RawMessage) (statement, error) {
	s := statement{controller: c, by: by, names: map[string]int{}}
	if typed, is := o.(metav1.Object); is {
		// The labels are the handler's to change.
		s.handled = handled{typed.GetNamespace(), typed.GetName(), string(typed.GetUID()), maps.Clone(typed.GetLabels())}
		return s, nil
	}
	var read struct{ Metadata handled }
	if err := json.Unmarshal(data, &read); err != nil {
		return statement{}, permanently("read the object's metadata: %w", err)
	}
	s.handled = read.Metadata
	return s, nil
}

// ref names the object in logs.
func (s *statement) ref() string {
	return object.Ref{Kind: s.controller.kind.kind, Namespace: s.handled.Namespace, Name: s.handled.Name}.String()
}

func (s *statement) log() *slog.Logger {
	return s.controller.app.logger().With("controller", s.controller.name(), "object", s.ref())
}

// Event tells something at the object, as a Kubernetes Event. The reason is one
// word in CamelCase; the format and what goes in it make a sentence.
func (s *statement) Event(reason, format string, args ...any) {
	s.tell("Normal", reason, fmt.Sprintf(format, args...))
}

// Warn is Event for something that is not well.
func (s *statement) Warn(reason, format string, args ...any) {
	s.tell("Warning", reason, fmt.Sprintf(format, args...))
}

func (s *statement) tell(kind, reason, message string) {
	s.said.events = append(s.said.events, hook.Event{Type: kind, Reason: reason, Message: message})
}

// Condition sets a condition of the object's status, by its type. Type, Status,
// Reason and Message count; when it last changed and for which generation it
// holds is kept by the loop.
func (s *statement) Condition(condition metav1.Condition) {
	s.said.conditions = append(s.said.conditions, hook.Condition{
		Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
	})
}

// Message says in a sentence how the object is doing.
func (s *statement) Message(format string, args ...any) {
	s.said.message = fmt.Sprintf(format, args...)
}

// Requeue has the function called once more after that time, or as soon as the
// object changes otherwise than by it, although all that it wants is written: it is
// not done. Requeue(0), or a time that has passed, is at once, through the rate limiter:
// a handler that says so again and again is called after its Backoff, a function of
// Compose once a second.
func (s *statement) Requeue(after time.Duration) {
	s.said.again = max(after, hook.Immediately)
}

// fail notes what cannot be. The call fails with it in the end.
func (s *statement) fail(format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf(format, args...))
}

// wrong is all that cannot be.
func (s *statement) wrong() error {
	if len(s.problems) == 0 {
		return nil
	}
	return Permanent(errors.Join(s.problems...))
}

// prepare is an object as it is to be written; nil if it cannot be, which is
// noted.
func (s *statement) prepare(verb string, o any, list []kind, how applying) json.RawMessage {
	k, err := s.permitted(o, verb, list)
	if err != nil {
		s.fail("%w", err)
		return nil
	}
	data, err := json.Marshal(o)
	if err == nil {
		data, err = s.completed(data, k, how)
	}
	if err != nil {
		s.fail("%s: write the %s as JSON: %w", verb, k.kind, err)
		return nil
	}
	return data
}

// completed is an object with all that its Go value need not say, and without what
// Go types write although nobody has set it.
func (s *statement) completed(data []byte, k kind, how applying) ([]byte, error) {
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
	if metadata, err = s.adopt(metadata.without(systems...), k, how); err != nil {
		return nil, err
	}
	head := members{{[]byte(`"apiVersion"`), quoted(k.apiVersion)}, {[]byte(`"kind"`), quoted(k.kind)}, {[]byte(`"metadata"`), metadata.JSON()}}
	return withoutEmptyTimes(append(head, all.without("apiVersion", "kind", "metadata", "status")...).JSON())
}

// systems are members of metadata that are not for whoever writes an object.
var systems = []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation"}

// adopt gives the metadata of an object what it has of the handled one.
func (s *statement) adopt(metadata members, k kind, how applying) (members, error) {
	if textOf(metadata.text("name")) == "" {
		name := s.generated(textOf(metadata.text("generateName")), k)
		metadata = metadata.without("generateName").with("name", quoted(name))
	}
	if !how.copyLabels || len(s.handled.Labels) == 0 {
		return metadata, nil
	}
	all := maps.Clone(s.handled.Labels)
	if own := metadata.text("labels"); own != nil && !isNull(own) {
		if err := json.Unmarshal(own, &all); err != nil {
			return nil, fmt.Errorf("metadata.labels: %w", err)
		}
	}
	text, err := json.Marshal(all)
	return metadata.with("labels", text), err
}

// generated is a name made of the object, the handler and how many such names
// there were in this call.
func (s *statement) generated(prefix string, k kind) string {
	if prefix == "" {
		return s.handled.Name
	}
	of := k.String() + " " + prefix
	s.names[of]++
	sum := sha256.Sum256([]byte(s.handled.UID + " " + s.ref() + " " + s.by + " " + of + " " + strconv.Itoa(s.names[of])))
	return prefix + hex.EncodeToString(sum[:5])
}

// permitted is the kind of an object that may be written.
func (s *statement) permitted(o any, verb string, list []kind) (kind, error) {
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
	declare := map[string]string{"Apply": "Owns or Applies", "Want": "Owns"}[verb]
	return kind{}, fmt.Errorf("%s: %s is not declared: say %s of it", verb, k, cmp.Or(declare, "Owns or Deletes"))
}
