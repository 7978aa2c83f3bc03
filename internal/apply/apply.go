// Package apply carries out what was decided, and reports what landed.
//
// Here live the writes to the API server: bytes out, bytes in, bounded per call
// and in all, and the meaning of a refusal. Whether something is to be written
// is not decided here but in the room plan. The engine and the host call it.
package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options configure a Writer. The zero value works.
type Options struct {
	// Manager is the field manager of the writes; "setpoint" if empty.
	Manager string
	// DryRun has the server check every write and answer what would come of it,
	// and store nothing.
	DryRun bool
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
	// parse reads the object in a response.
	parse func(data []byte, apiVersion, kind string) (*object.Object, error)
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
	return &Writer{client: client, options: options, slots: make(chan struct{}, options.Parallel), parse: object.ParseAs}
}

// WithManagedFields is the writer, with metadata.managedFields in the objects that it returns.
func (w *Writer) WithManagedFields() *Writer {
	whole := *w
	whole.parse = object.ParseWithManagedFields
	return &whole
}

// Get reads an object from the server, past all caches.
func (w *Writer) Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	return w.send(ctx, resource, "get", w.client.Get().AbsPath(resource.Path(namespace, name)))
}

// Create stores a new object and returns it as stored.
func (w *Writer) Create(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.send(ctx, resource, "create", w.createRequest(resource, o, ""))
}

// Update replaces an object, if it is still of the version o was made from.
func (w *Writer) Update(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.send(ctx, resource, "update", w.updateRequest(resource, o))
}

// UpdateStatus replaces an object's status, if the object is still of the
// version o was made from. The server need not look for fields that the schema
// does not have, which takes time and would be told to nobody: it prunes them.
func (w *Writer) UpdateStatus(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.send(ctx, resource, "update_status", w.writeRequest(w.client.Put(), "").
		AbsPath(resource.Path(o.Namespace(), o.Name())+"/status").
		Param("fieldValidation", metav1.FieldValidationIgnore).Body(o.JSON()))
}

// createRequest is a request to store a new object. Where server-side apply is to bring
// it in line later, by a manager, fields that nobody knows are refused at once, as
// they would be then.
func (w *Writer) createRequest(resource object.Resource, o *object.Object, manager string) *rest.Request {
	request := w.writeRequest(w.client.Post(), manager).AbsPath(resource.Path(o.Namespace(), "")).Body(o.JSON())
	if manager != "" {
		request = request.Param("fieldValidation", metav1.FieldValidationStrict)
	}
	return request
}

// updateRequest is a request to replace an object.
func (w *Writer) updateRequest(resource object.Resource, o *object.Object) *rest.Request {
	return w.writeRequest(w.client.Put(), "").AbsPath(resource.Path(o.Namespace(), o.Name())).Body(o.JSON())
}

// writeRequest says in a request whose fields those are that it writes; the writer's
// own manager's if empty.
func (w *Writer) writeRequest(request *rest.Request, manager string) *rest.Request {
	return w.withDryRun(request.SetHeader("Content-Type", "application/json").Param("fieldManager", w.managerOr(manager)))
}

func (w *Writer) managerOr(manager string) string { return cmp.Or(manager, w.options.Manager) }

// withDryRun makes a dry run of a write, if all are to be.
func (w *Writer) withDryRun(request *rest.Request) *rest.Request {
	if w.options.DryRun {
		return dryRun(request)
	}
	return request
}

// asDryRun makes a dry run of a write, if not all are.
func (w *Writer) asDryRun(request *rest.Request) *rest.Request {
	if w.options.DryRun {
		return request
	}
	return dryRun(request)
}

func dryRun(request *rest.Request) *rest.Request { return request.Param("dryRun", metav1.DryRunAll) }

// Delete deletes the very object given, not another one of its name. It returns
// the object as it now is when it takes time to go, and nil when it is gone.
func (w *Writer) Delete(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	body, err := w.deleteBody(o)
	if err != nil {
		return nil, err
	}
	request := w.client.Delete().AbsPath(resource.Path(o.Namespace(), o.Name())).SetHeader("Content-Type", "application/json").Body(body)
	left, err := w.send(ctx, resource, "delete", request)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // Gone is what was asked for, and there is nothing to show.
	}
	if err != nil || left.UID() != o.UID() || !left.Deleting() {
		return nil, err
	}
	return left, nil
}

// deleteBody is the body of a request to delete an object. All there is to say
// stands in it: where there is a body, the server does not look at the query, and
// would carry out a dry run that is asked for there.
func (w *Writer) deleteBody(o *object.Object) ([]byte, error) {
	return json.Marshal(w.deleteOptions(o))
}

// deleteOptions are about the very object given.
func (w *Writer) deleteOptions(o *object.Object) *metav1.DeleteOptions {
	uid, background := types.UID(o.UID()), metav1.DeletePropagationBackground
	options := &metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	}
	if w.options.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return options
}

// send does one exchange and reads the object in the answer.
func (w *Writer) send(ctx context.Context, resource object.Resource, verb string, request *rest.Request) (*object.Object, error) {
	body, err := w.doRequest(ctx, resource, verb, request.SetHeader("Accept", "application/json"))
	if err != nil {
		return nil, err
	}
	return w.parse(body, "", "")
}

// doRequest sends a request when its turn has come, and returns the answer.
func (w *Writer) doRequest(ctx context.Context, resource object.Resource, verb string, request *rest.Request) ([]byte, error) {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	started := time.Now()
	body, err := request.Do(ctx).Raw()
	if err != nil {
		err = statusErrorOf(body, err)
	}
	w.options.Observe(resource, verb, outcome(err), time.Since(started))
	return body, err
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

// Conflict says that the object has moved on since it was read: nothing to
// report, only to look again.
func Conflict(err error) bool { return apierrors.IsConflict(err) }

// AlreadyExists says that another object of that name is already there.
func AlreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) }

// Forbidden says that Setpoint may not do that.
func Forbidden(err error) bool { return apierrors.IsForbidden(err) }

// NotFound says that the object is not there any more.
func NotFound(err error) bool { return apierrors.IsNotFound(err) }

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
