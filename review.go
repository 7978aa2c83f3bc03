package setpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
)

// User is who wants a change, as the API server knows them.
type User = hook.User

// Connect is for reviews alone: somebody connects to an object, to run a command in
// it, say.
const Connect Reason = "connect"

// Review is a change of an object of type T before it is stored.
//
// It is for one goroutine at a time, and not to be kept.
type Review[T any] struct {
	// Object is the object as it would be stored, nil on Delete. It is the function's
	// own: what Mutate changes of it is stored. Fields that T does not know stay as
	// they are.
	Object *T
	// Old is the object as it is stored, nil on Create.
	Old *T
	// Operation is Create, Update, Delete or Connect, and Subresource what it is done
	// to, such as "status"; empty for the object itself.
	Operation   Reason
	Subresource string
	// Namespace is empty for an object that lives in none, and Name for one that the
	// API server is to name.
	Namespace, Name string
	// User is who wants it.
	User User
	// DryRun says that nothing will be stored.
	DryRun bool
	// Log has the names of the controller, the review and the object.
	Log *slog.Logger

	statement statement
	asked     *hook.Review
	before    []byte
	verdict   hook.Verdict
}

func newReview[T any](of *review[T], asked *hook.Review) (*Review[T], error) {
	r := &Review[T]{
		Operation: Reason(strings.ToLower(string(asked.Operation))), Subresource: asked.Subresource,
		Namespace: asked.Namespace, Name: asked.Name, User: asked.User, DryRun: asked.DryRun, asked: asked,
	}
	var err error
	if asked.Old != nil {
		if r.Old, err = decode[T](asked.Old); err != nil {
			return nil, fmt.Errorf("the old one: %w", err)
		}
	}
	if asked.Object != nil {
		if r.Object, err = decode[T](asked.Object); err != nil {
			return nil, err
		}
	}
	if of.hook.Mutates && r.Object != nil {
		if r.before, err = json.Marshal(r.Object); err != nil {
			return nil, fmt.Errorf("write the object as JSON: %w", err)
		}
	}
	r.statement = statement{controller: &of.of.c, by: of.name, handled: handled{Namespace: r.Namespace, Name: r.Name}}
	r.Log = r.statement.log().With("review", of.name)
	return r, nil
}

// Warn shows the user a line, whatever comes of the change: kubectl prints it. It is
// cut at 256 characters or so.
func (r *Review[T]) Warn(format string, args ...any) {
	r.verdict.Warnings = append(r.verdict.Warnings, fmt.Sprintf(format, args...))
}

// Audit adds to the entry in the API server's audit log. The name of the webhook is
// put before the key.
func (r *Review[T]) Audit(key, value string) {
	if r.verdict.Audit == nil {
		r.verdict.Audit = map[string]string{}
	}
	r.verdict.Audit[key] = value
}

// Event tells something at another object, such as the one that has a say in this
// change, as a Kubernetes Event; nil stands for the object itself, which has to have a
// name. It is told once the verdict is given, and not on a dry run. See Call.Event.
func (r *Review[T]) Event(about any, reason, format string, args ...any) {
	r.tell(about, hook.Event{Type: "Normal", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// WarningEvent is Event for something that is not well.
func (r *Review[T]) WarningEvent(about any, reason, format string, args ...any) {
	r.tell(about, hook.Event{Type: "Warning", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (r *Review[T]) tell(about any, event hook.Event) {
	at := hook.EventAt{
		Event: event, APIVersion: r.asked.APIVersion, Kind: r.asked.Kind, Namespace: r.Namespace, Name: r.Name,
	}
	if about != nil {
		if err := r.locate(about, &at); err != nil {
			r.statement.fail("Event: %w", err)
			return
		}
	}
	r.verdict.Events = append(r.verdict.Events, at)
}

// locate says at which object an event is.
func (r *Review[T]) locate(about any, at *hook.EventAt) error {
	known, err := r.statement.controller.app.kinds()
	if err != nil {
		return err
	}
	k, err := known.of(about)
	if err != nil {
		return err
	}
	data, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("write the %s as JSON: %w", k.kind, err)
	}
	var o struct{ Metadata handled }
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("read the metadata of the %s: %w", k.kind, err)
	}
	if o.Metadata.Name == "" {
		return fmt.Errorf("the %s has no name", k.kind)
	}
	at.APIVersion, at.Kind = k.apiVersion, k.kind
	at.Namespace, at.Name, at.UID = o.Metadata.Namespace, o.Metadata.Name, o.Metadata.UID
	return nil
}

// answer is what the function says by returning an error, or none.
func (r *Review[T]) answer(err error) (*hook.Verdict, error) {
	if err != nil {
		r.verdict.Denial = denialIn(err)
		if r.verdict.Denial == nil {
			return nil, err
		}
	} else if r.before != nil {
		if err := r.compare(); err != nil {
			return nil, err
		}
	}
	if err := r.statement.wrong(); err != nil {
		return nil, err
	}
	return &r.verdict, nil
}

// compare finds out what was changed of the object.
func (r *Review[T]) compare() error {
	if r.Object == nil {
		return errors.New("the object was taken out of the review: to refuse it, return setpoint.Deny")
	}
	after, err := json.Marshal(r.Object)
	if err != nil {
		return fmt.Errorf("write the object as JSON: %w", err)
	}
	r.verdict.Object, err = admission.Rebase(r.asked.Object, r.before, after)
	return err
}
