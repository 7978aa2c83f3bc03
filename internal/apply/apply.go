// Package apply writes plans and objects to the API server, and reports the results.
//
// It sends and returns JSON bytes, bounds concurrent writes, and classifies errors. Package plan
// decides what to write.
package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	authentication "k8s.io/api/authentication/v1"
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
	// DryRun sends all writes as dry runs: the server validates them and returns the result, but
	// stores nothing.
	DryRun bool
	// Parallel bounds concurrent writes; 64 if zero. With 1 a plan is written in its order, in the
	// goroutine of the caller.
	Parallel int
	// Observe receives every request with its verb and outcome (an HTTP status reason, or "ok");
	// may be nil.
	Observe func(resource object.Resource, verb, outcome string, took time.Duration)
}

// Writer writes objects. It is safe for concurrent use.
type Writer struct {
	client  rest.Interface
	options Options
	slots   chan struct{}
	// user is impersonated; empty for the user of the client.
	user string
	// parse parses the object in a response.
	parse func(data []byte, apiVersion, kind string) (*object.Object, error)
}

// New returns a Writer. The client should have no rate limit: the server has priority and fairness,
// and Parallel bounds concurrent writes.
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

// WithManagedFields returns a Writer that returns objects with metadata.managedFields.
func (w *Writer) WithManagedFields() *Writer {
	whole := *w
	whole.parse = object.ParseWithManagedFields
	return &whole
}

// As returns a Writer whose requests are made as another user, which the client has to be allowed to
// impersonate; the empty user is that of the client. The Writers share the limit of concurrent writes.
//
// Only the user is impersonated: with groups, the API server would not ask for the right to impersonate just
// this ServiceAccount.
func (w *Writer) As(user string) *Writer {
	if user == w.user {
		return w
	}
	other := *w
	other.user = user
	return &other
}

// Get reads an object from the server, not from a cache.
func (w *Writer) Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	return w.send(ctx, resource, "get", w.client.Get().AbsPath(resource.Path(namespace, name)))
}

// Create creates an object and returns it as stored.
func (w *Writer) Create(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.create(ctx, resource, o, "")
}

// Update replaces an object if it still has the resource version of o.
func (w *Writer) Update(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.send(ctx, resource, "update", w.updateRequest(resource, o))
}

// UpdateStatus replaces the status of an object if it still has the resource version of o. It turns
// off field validation, which takes time: the server prunes unknown fields.
func (w *Writer) UpdateStatus(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	return w.send(ctx, resource, "update_status", w.writeRequest(w.client.Put(), "").
		AbsPath(resource.Path(o.Namespace(), o.Name())+"/status").
		Param("fieldValidation", metav1.FieldValidationIgnore).Body(o.JSON()))
}

// createRequest returns a request that creates an object. If a manager applies it later, unknown
// fields are rejected at once, as the apply would.
func (w *Writer) createRequest(resource object.Resource, o *object.Object, manager string) *rest.Request {
	request := w.writeRequest(w.client.Post(), manager).AbsPath(resource.Path(o.Namespace(), "")).Body(o.JSON())
	if manager != "" {
		request = request.Param("fieldValidation", metav1.FieldValidationStrict)
	}
	return request
}

func (w *Writer) updateRequest(resource object.Resource, o *object.Object) *rest.Request {
	return w.writeRequest(w.client.Put(), "").AbsPath(resource.Path(o.Namespace(), o.Name())).Body(o.JSON())
}

// writeRequest sets the content type and the field manager; the writer's own if empty.
func (w *Writer) writeRequest(request *rest.Request, manager string) *rest.Request {
	return w.withDryRun(request.SetHeader("Content-Type", "application/json").Param("fieldManager", w.managerOr(manager)))
}

func (w *Writer) managerOr(manager string) string { return cmp.Or(manager, w.options.Manager) }

// withDryRun makes a request a dry run if all are.
func (w *Writer) withDryRun(request *rest.Request) *rest.Request {
	if w.options.DryRun {
		return dryRun(request)
	}
	return request
}

// asDryRun makes a request a dry run.
func (w *Writer) asDryRun(request *rest.Request) *rest.Request {
	if w.options.DryRun {
		return request
	}
	return dryRun(request)
}

func dryRun(request *rest.Request) *rest.Request { return request.Param("dryRun", metav1.DryRunAll) }

// Delete deletes the object with the UID of o. It returns the object if it is still being deleted,
// and nil if it is gone.
func (w *Writer) Delete(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	body, err := w.deleteBody(o)
	if err != nil {
		return nil, err
	}
	request := w.client.Delete().AbsPath(resource.Path(o.Namespace(), o.Name())).SetHeader("Content-Type", "application/json").Body(body)
	left, err := w.send(ctx, resource, "delete", request)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // Gone is the desired result, and there is no object to return.
	}
	if err != nil || left.UID() != o.UID() || !left.Deleting() {
		return nil, err
	}
	return left, nil
}

// deleteBody returns the body of a delete request. It contains all options: with a body, the server
// ignores the query, even dryRun.
func (w *Writer) deleteBody(o *object.Object) ([]byte, error) {
	return json.Marshal(w.deleteOptions(o))
}

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

// send sends a request and parses the object in the response.
func (w *Writer) send(ctx context.Context, resource object.Resource, verb string, request *rest.Request) (*object.Object, error) {
	body, err := w.doRequest(ctx, resource, verb, request.SetHeader("Accept", "application/json"))
	if err != nil {
		return nil, err
	}
	return w.parse(body, "", "")
}

// doRequest waits for a slot, sends a request and returns the body of the response.
func (w *Writer) doRequest(ctx context.Context, resource object.Resource, verb string, request *rest.Request) ([]byte, error) {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.user != "" {
		request = request.SetHeader(authentication.ImpersonateUserHeader, w.user)
	}
	started := time.Now()
	ctx, span := w.startSpan(ctx, resource, verb, request)
	body, err := request.Do(ctx).Raw()
	if err != nil {
		err = statusErrorOf(body, err)
	}
	if resource != object.Namespaces && verb != "create" && verb != "apply" {
		err = ExplainNamespace(err)
	}
	endSpan(span, body, err)
	w.options.Observe(resource, verb, outcome(err), time.Since(started))
	return body, err
}

// outcome returns the label of an error in metrics.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	return "Error"
}

// Conflict reports whether the object changed since it was read. That is no failure, only a reason
// to retry.
func Conflict(err error) bool { return apierrors.IsConflict(err) }

// AlreadyExists reports whether another object has the name.
func AlreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) }

// Forbidden reports whether Setpoint lacks the permission.
func Forbidden(err error) bool { return apierrors.IsForbidden(err) }

// NotFound reports whether the object does not exist.
func NotFound(err error) bool {
	_, namespace := errors.AsType[*NamespaceGoneError](err)
	return !namespace && apierrors.IsNotFound(err)
}

// NamespaceGoneError says that a namespace went before an object in it, because its own finalizer was removed by hand, or
// because the kind was not served while the namespace was deleted. The API server refuses every update there.
type NamespaceGoneError struct {
	Namespace string
	// Err is the error of the API server.
	Err error
}

func (e *NamespaceGoneError) Error() string {
	return fmt.Sprintf("the namespace %s is gone, and the API server stores no change in it; to let the object go, run: "+
		"kubectl create namespace %[1]s && kubectl delete namespace %[1]s", e.Namespace)
}

func (e *NamespaceGoneError) Unwrap() error { return e.Err }

// ExplainNamespace returns a NamespaceGoneError for the error of an update of which the API server does not find the
// namespace, and any other error as it is.
func ExplainNamespace(err error) error {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if is && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces" {
		return &NamespaceGoneError{Namespace: status.ErrStatus.Details.Name, Err: err}
	}
	return err
}

// Unreachable reports whether the server returned no response, or none about the object. A retry
// may help.
func Unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusUnauthorized ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// Terminating reports whether the server rejects a write because the namespace is being deleted.
func Terminating(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// Rejected reports whether the API server rejected this write, rather than being overloaded
// or unreachable.
func Rejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || NotFound(err) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}
