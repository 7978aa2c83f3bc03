package setpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
)

// User is who wants a change, as the API server knows them.
type User = hook.User

// Operation is an operation on an object, as the API server names it.
type Operation = hook.Operation

// The operations that a webhook can review.
const (
	OperationCreate  = hook.OperationCreate
	OperationUpdate  = hook.OperationUpdate
	OperationDelete  = hook.OperationDelete
	OperationConnect = hook.OperationConnect
)

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
	// Operation is the operation to review. Subresource is the subresource that it
	// changes, such as "status", and empty for the object itself.
	Operation   Operation
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

	objectContext objectContext
	request       *hook.ReviewRequest
	before        []byte
	response      hook.ReviewResponse
}

func newReview[T any](of *review[T], req *hook.ReviewRequest) (*Review[T], error) {
	r := &Review[T]{
		Operation: req.Operation, Subresource: req.Subresource,
		Namespace: req.Namespace, Name: req.Name, User: req.User, DryRun: req.DryRun, request: req,
	}
	var err error
	if req.OldObject != nil {
		if r.Old, err = decode[T](req.OldObject); err != nil {
			return nil, fmt.Errorf("the old one: %w", err)
		}
	}
	if req.Object != nil {
		if r.Object, err = decode[T](req.Object); err != nil {
			return nil, err
		}
	}
	if of.hook.Mutates && r.Object != nil {
		if r.before, err = json.Marshal(r.Object); err != nil {
			return nil, fmt.Errorf("write the object as JSON: %w", err)
		}
	}
	r.objectContext = objectContext{controller: &of.handlers.c, functionName: of.name, metadata: objectMeta{Namespace: r.Namespace, Name: r.Name}}
	r.Log = r.objectContext.logger().With("review", of.name)
	return r, nil
}

// Warn shows the user a line, whatever comes of the change: kubectl prints it. It is
// cut at 256 characters or so.
func (r *Review[T]) Warn(format string, args ...any) {
	r.response.Warnings = append(r.response.Warnings, fmt.Sprintf(format, args...))
}

// Audit adds to the entry in the API server's audit log. The name of the webhook is
// put before the key.
func (r *Review[T]) Audit(key, value string) {
	if r.response.AuditAnnotations == nil {
		r.response.AuditAnnotations = map[string]string{}
	}
	r.response.AuditAnnotations[key] = value
}

// Event tells something at another object, such as the one that has a say in this
// change, as a Kubernetes Event; nil stands for the object itself, which has to have a
// name. It is told once the verdict is given, and not on a dry run. See Call.Event.
func (r *Review[T]) Event(obj any, reason, format string, args ...any) {
	r.addEvent(obj, hook.Event{Type: "Normal", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// WarningEvent is Event for something that is not well.
func (r *Review[T]) WarningEvent(obj any, reason, format string, args ...any) {
	r.addEvent(obj, hook.Event{Type: "Warning", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (r *Review[T]) addEvent(obj any, event hook.Event) {
	at := hook.ObjectEvent{
		Event: event, APIVersion: r.request.APIVersion, Kind: r.request.Kind, Namespace: r.Namespace, Name: r.Name,
	}
	if obj != nil {
		if err := r.setEventObject(obj, &at); err != nil {
			r.objectContext.fail("Event: %w", err)
			return
		}
	}
	r.response.Events = append(r.response.Events, at)
}

// setEventObject says at which object an event is.
func (r *Review[T]) setEventObject(obj any, at *hook.ObjectEvent) error {
	known, err := r.objectContext.controller.app.kinds()
	if err != nil {
		return err
	}
	k, err := known.of(obj)
	if err != nil {
		return err
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("write the %s as JSON: %w", k.kind, err)
	}
	var o struct{ Metadata objectMeta }
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

// respond is what the function says by returning an error, or none.
func (r *Review[T]) respond(err error) (*hook.ReviewResponse, error) {
	if err != nil {
		r.response.Denial = denialIn(err)
		if r.response.Denial == nil {
			return nil, err
		}
	} else if r.before != nil {
		if err := r.diffObject(); err != nil {
			return nil, err
		}
	}
	if err := r.objectContext.err(); err != nil {
		return nil, err
	}
	return &r.response, nil
}

// diffObject finds out what was changed of the object.
func (r *Review[T]) diffObject() error {
	if r.Object == nil {
		return errors.New("the object was taken out of the review: to refuse it, return setpoint.Deny")
	}
	after, err := json.Marshal(r.Object)
	if err != nil {
		return fmt.Errorf("write the object as JSON: %w", err)
	}
	r.response.Object, err = admission.Rebase(r.request.Object, r.before, after)
	return err
}
