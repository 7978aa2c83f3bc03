package setpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission/patch"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// ReviewFunc reviews a change of an object of type T before the API server stores it. It
// returns nil to allow the change, and Deny or Invalid to deny it. On any other error, and
// on a panic, the FailurePolicy decides. It must be safe for concurrent use and have no
// side effects: the API server may send a change several times, and may not make it.
type ReviewFunc[T any] func(ctx context.Context, r *Review[T]) error

// Review is a change of an object of type T before the API server stores it.
//
// A Review must not be used concurrently, nor after the function returns.
type Review[T any] struct {
	// Object is the object to store, nil for OperationDelete. Mutate stores the changes
	// of it. Fields that T does not have are kept.
	Object *T
	// Old is the stored object, nil for OperationCreate.
	Old *T
	// Operation is the operation to review. Subresource is the subresource that it
	// changes, such as "status", and empty for the object itself.
	Operation   Operation
	Subresource string
	// Namespace is empty for a cluster-scoped object. Name is empty if the API server
	// generates it.
	Namespace, Name string
	// User is the user who requests the change.
	User User
	// DryRun reports that the API server will not store the object.
	DryRun bool
	// Log adds the names of the controller, the webhook and the object.
	Log *slog.Logger

	call     sdk.Invocation
	request  *hook.ReviewRequest
	before   []byte
	response hook.ReviewResponse
}

// review calls the function of an admission webhook. It implements hook.Admitter.
type review[T any] struct {
	webhook    *sdk.Webhook
	controller *sdk.Controller
	name       string
	fn         ReviewFunc[T]
}

// Admit calls the function.
func (v *review[T]) Admit(ctx context.Context, req *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	r, err := newReview(v, req)
	if err != nil {
		return nil, err
	}
	return r.respond(r.call.Invoke(ctx, "review", v.name, func() error { return v.fn(ctx, r) }))
}

func newReview[T any](of *review[T], req *hook.ReviewRequest) (*Review[T], error) {
	r := &Review[T]{
		Operation: req.Operation, Subresource: req.Subresource,
		Namespace: req.Namespace, Name: req.Name, User: req.User, DryRun: req.DryRun, request: req,
	}
	var err error
	if req.OldObject != nil {
		if r.Old, err = sdk.Decode[T](req.OldObject); err != nil {
			return nil, fmt.Errorf("the old object: %w", err)
		}
	}
	if req.Object != nil {
		if r.Object, err = sdk.Decode[T](req.Object); err != nil {
			return nil, err
		}
	}
	if of.webhook.Spec.Mutates && r.Object != nil {
		if r.before, err = json.Marshal(r.Object); err != nil {
			return nil, fmt.Errorf("write the object as JSON: %w", err)
		}
	}
	r.call = sdk.NewInvocation(of.controller, of.name)
	r.call.Metadata = sdk.Metadata{Namespace: r.Namespace, Name: r.Name}
	r.Log = r.call.ObjectLogger().With("review", of.name)
	return r, nil
}

// Warn shows a line to the user, such as in kubectl. Kubernetes truncates it at about 256
// characters.
func (r *Review[T]) Warn(format string, args ...any) {
	r.response.Warnings = append(r.response.Warnings, fmt.Sprintf(format, args...))
}

// Audit adds an annotation to the API server's audit log. Kubernetes prefixes the key
// with the name of the webhook.
func (r *Review[T]) Audit(key, value string) {
	if r.response.AuditAnnotations == nil {
		r.response.AuditAnnotations = map[string]string{}
	}
	r.response.AuditAnnotations[key] = value
}

// Event records a Kubernetes Event on another object; nil means the reviewed object,
// which must have a name. Setpoint sends it after the response, and not on a dry run. See
// Call.Event.
func (r *Review[T]) Event(obj any, reason, format string, args ...any) {
	r.addEvent(obj, hook.Event{Type: "Normal", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// WarningEvent is Event with type Warning.
func (r *Review[T]) WarningEvent(obj any, reason, format string, args ...any) {
	r.addEvent(obj, hook.Event{Type: "Warning", Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (r *Review[T]) addEvent(obj any, event hook.Event) {
	at := hook.ObjectEvent{
		Event: event, APIVersion: r.request.APIVersion, Kind: r.request.Kind, Namespace: r.Namespace, Name: r.Name,
	}
	if obj != nil {
		if err := r.setEventObject(obj, &at); err != nil {
			r.call.Fail("Event: %w", err)
			return
		}
	}
	r.response.Events = append(r.response.Events, at)
}

// setEventObject sets the object of an event.
func (r *Review[T]) setEventObject(obj any, at *hook.ObjectEvent) error {
	k, err := r.call.KindOf(obj)
	if err != nil {
		return err
	}
	o, err := sdk.Identify(obj)
	if err != nil {
		return fmt.Errorf("read the metadata of the %s: %w", k.Name, err)
	}
	if o.Name == "" {
		return fmt.Errorf("the %s has no name", k.Name)
	}
	at.APIVersion, at.Kind = k.APIVersion, k.Name
	at.Namespace, at.Name, at.UID = o.Namespace, o.Name, o.UID
	return nil
}

// respond returns the response for the error of the function.
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
	if err := r.call.Problems(); err != nil {
		return nil, err
	}
	return &r.response, nil
}

// diffObject adds the changes of the object to the response.
func (r *Review[T]) diffObject() error {
	if r.Object == nil {
		return errors.New("Object must not be nil: return setpoint.Deny to deny the change")
	}
	after, err := json.Marshal(r.Object)
	if err != nil {
		return fmt.Errorf("write the object as JSON: %w", err)
	}
	r.response.Object, err = patch.Rebase(r.request.Object, r.before, after)
	return err
}

// Denial is an error by which a review denies a change. The user reads its message, and
// those of the errors that wrap it.
type Denial struct {
	Message string
	// Reason is the API server's reason for such an error, such as "Conflict"; the
	// default is that of the code. Code is the HTTP status; the default is that of the reason, or 403.
	Reason string
	Code   int
}

func (d *Denial) Error() string { return d.Message }

// Deny denies a change that is not allowed (403 Forbidden). The message says what is
// wrong and what to do.
func Deny(format string, args ...any) error {
	return &Denial{Message: fmt.Sprintf(format, args...)}
}

// Invalid denies an invalid object (422 Invalid), like a schema. The message begins with
// the field path.
func Invalid(format string, args ...any) error {
	return &Denial{Message: fmt.Sprintf(format, args...), Reason: string(metav1.StatusReasonInvalid)}
}

// denialIn returns the denial in an error, or nil.
func denialIn(err error) *hook.Denial {
	d, denied := errors.AsType[*Denial](err)
	if !denied {
		return nil
	}
	return &hook.Denial{Message: err.Error(), Reason: d.Reason, Code: d.Code}
}
