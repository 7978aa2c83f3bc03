// Package apply carries out what was decided, and reports what landed.
//
// Here live the writes to the API server: bytes out, bytes in, bounded per call
// and in all, and the meaning of a refusal. Whether something is to be written
// is not decided here but in the room plan. The engine and the host call it.
package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options configure a Writer. The zero value works.
type Options struct {
	// Manager is the field manager of the writes; "setpoint" if empty.
	Manager string
	// Parallel bounds the writes under way at once; 64 if zero.
	Parallel int
	// Observe is told of every write that was answered or failed, by verb
	// and outcome (an HTTP status reason, or "ok"); nil for nobody.
	Observe func(resource object.Resource, verb, outcome string, took time.Duration)
}

// Writer writes objects. It may be used by many goroutines.
type Writer struct {
	client  rest.Interface
	options Options
	slots   chan struct{}
}

// New makes a Writer. The client's own rate limit should be off: the server has
// priority and fairness, and Parallel bounds what is under way.
func New(client rest.Interface, options Options) *Writer {
	if options.Manager == "" {
		options.Manager = "setpoint"
	}
	if options.Parallel <= 0 {
		options.Parallel = 64
	}
	if options.Observe == nil {
		options.Observe = func(object.Resource, string, string, time.Duration) {}
	}
	return &Writer{client: client, options: options, slots: make(chan struct{}, options.Parallel)}
}

// Get reads an object from the server, past all caches.
func (w *Writer) Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	return w.send(ctx, resource, "get", w.client.Get().AbsPath(resource.Path(namespace, name)))
}

// Create stores a new object and returns it as stored.
func (w *Writer) Create(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.send(ctx, resource, "create", w.client.Post().AbsPath(resource.Path(o.Namespace(), "")).
		Param("fieldManager", w.options.Manager).Body(o.JSON()))
}

// Update replaces an object, if it is still of the version o was made from.
func (w *Writer) Update(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.send(ctx, resource, "update", w.client.Put().AbsPath(resource.Path(o.Namespace(), o.Name())).
		Param("fieldManager", w.options.Manager).Body(o.JSON()))
}

// UpdateStatus replaces an object's status, if the object is still of the
// version o was made from.
func (w *Writer) UpdateStatus(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.send(ctx, resource, "update_status", w.client.Put().AbsPath(resource.Path(o.Namespace(), o.Name())+"/status").
		Param("fieldManager", w.options.Manager).Body(o.JSON()))
}

// Delete deletes the very object given, not another one of its name. It returns
// the object as it now is when it takes time to go, and nil when it is gone.
func (w *Writer) Delete(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	uid, err := json.Marshal(o.UID())
	if err != nil {
		return nil, err
	}
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background","preconditions":{"uid":%s}}`, uid)
	left, err := w.send(ctx, resource, "delete", w.client.Delete().AbsPath(resource.Path(o.Namespace(), o.Name())).Body(body))
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // Gone is what was asked for, and there is nothing to show.
	}
	if err != nil || left.UID() != o.UID() || !left.Deleting() {
		return nil, err
	}
	return left, nil
}

// send does one exchange and reads the object in the answer.
func (w *Writer) send(ctx context.Context, resource object.Resource, verb string, request *rest.Request) (*object.Object, error) {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	started := time.Now()
	stored, err := exchange(ctx, request)
	w.options.Observe(resource, verb, outcome(err), time.Since(started))
	return stored, err
}

func exchange(ctx context.Context, request *rest.Request) (*object.Object, error) {
	body, err := request.
		SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").
		Do(ctx).Raw()
	if err != nil {
		return nil, refusal(body, err)
	}
	return object.Parse(body)
}

// outcome is a word for metrics.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	return "Error"
}

// refusal puts the server's own words into an error: a raw exchange yields the
// Status object as bytes and an error that only knows the code.
func refusal(body []byte, err error) error {
	if status, ok := statusOf(body); ok {
		return status
	}
	return err
}

// Conflict says that the object has moved on since it was read: nothing to
// report, only to look again.
func Conflict(err error) bool { return apierrors.IsConflict(err) }

// Exists says that another object of that name is already there.
func Exists(err error) bool { return apierrors.IsAlreadyExists(err) }

// Gone says that the object is not there any more.
func Gone(err error) bool { return apierrors.IsNotFound(err) }

// Unreachable says that the server gave no answer, or none that means anything
// about the object: nobody's mistake, and worth another try.
func Unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusUnauthorized || errors.Is(err, io.ErrUnexpectedEOF)
}

// Terminating says that the server refuses because the namespace is going away.
func Terminating(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}
