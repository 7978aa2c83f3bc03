// Package apply writes plans and objects to the API server, and reports the results.
//
// It sends and returns JSON bytes, bounds concurrent writes, and classifies errors. Package plan decides what to write.
package apply

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// defaultManager is the field manager of writes without another one.
const defaultManager = "setpoint"

// Options configure a Writer. The zero value works.
type Options struct {
	// DryRun sends all writes as dry runs: the server validates them and returns the result, but stores nothing.
	DryRun bool
	// Parallel bounds concurrent writes; 64 if zero. With 1 a plan is written in order, in the caller's goroutine.
	Parallel int
	// Observe receives every request with its verb and outcome (an HTTP status reason, or "ok"); may be nil.
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

// New returns a Writer. The client should have no rate limit: the server has priority and fairness.
func New(client rest.Interface, options Options) *Writer {
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
// Not with groups: the API server would not ask for the right to impersonate just this ServiceAccount.
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
	return w.send(ctx, read(resource, namespace, name))
}

// Create creates an object with a field manager, the default if empty, and returns it as stored.
func (w *Writer) Create(ctx context.Context, resource object.Resource, o *object.Object, manager string) (*object.Object, error) {
	return w.send(ctx, create(resource, annotated(ctx, o), manager))
}

// StatusPart is the part of an object that Update and Patch write alone.
const StatusPart = "status"

// Update replaces an object, or its status, if it still has the resource version of o.
func (w *Writer) Update(ctx context.Context, resource object.Resource, o *object.Object, part string) (*object.Object, error) {
	return w.send(ctx, onPart(update(resource, o), part))
}

// Patch sends a JSON merge patch for the object with the name of o, or for its status. If the patch has a UID or
// resource version, a mismatch is a Conflict.
func (w *Writer) Patch(ctx context.Context, resource object.Resource, o *object.Object, patch []byte, part string) (*object.Object, error) {
	return w.send(ctx, onPart(patchOf("patch", types.MergePatchType, resource, o.Ref(), patch), part))
}

// Delete deletes the object with the UID of o. It returns the object if it is still being deleted; nil if it is gone.
func (w *Writer) Delete(ctx context.Context, resource object.Resource, o *object.Object) (*object.Object, error) {
	body, err := json.Marshal(w.deleteOptions(o))
	if err != nil {
		return nil, err
	}
	left, err := w.send(ctx, on("delete", http.MethodDelete, resource, o.Ref(), body))
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // Gone is the desired result, and there is no object to return.
	}
	if err != nil || left.UID() != o.UID() || !left.Deleting() {
		return nil, err
	}
	return left, nil
}

// send sends a request and parses the object in the response.
func (w *Writer) send(ctx context.Context, r apiRequest) (*object.Object, error) {
	body, err := w.do(ctx, r)
	if err != nil {
		return nil, err
	}
	return w.parse(body, "", "")
}

// try sends a write as a dry run.
func (w *Writer) try(ctx context.Context, r apiRequest) (*object.Object, error) {
	dry := *w
	dry.options.DryRun, r.verb = true, "try"
	return dry.send(ctx, r)
}

// do waits for a slot, sends a request and returns the body of the response.
func (w *Writer) do(ctx context.Context, r apiRequest) ([]byte, error) {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	started := time.Now()
	ctx, span := trace.StartRequest(ctx, trace.APIRequest{
		Verb: r.verb, Resource: r.resource.Plural, Kind: r.resource.Kind, Namespace: r.namespace, Name: r.name,
		Write: !w.options.DryRun && r.method != http.MethodGet,
	})
	result := w.build(ctx, r).Do(ctx)
	err := improved(result.Error())
	body, _ := result.Raw()
	if r.resource != object.Namespaces && r.verb != "create" && r.verb != "apply" {
		err = ExplainNamespace(err)
	}
	endSpan(span, body, err)
	w.options.Observe(r.resource, r.verb, outcome(err), time.Since(started))
	return body, err
}

// Conflict reports whether the object changed since it was read. That is no failure, only a reason to retry.
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

// NamespaceGoneError says that a namespace went before an object in it, because its finalizer was removed by hand, or
// the kind was not served meanwhile. Before Kubernetes 1.37, the API server refuses every update there.
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

// Unreachable reports whether the server returned no response, or none about the object. A retry may help.
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

// Rejected reports whether the API server rejected this write, rather than being overloaded or unreachable.
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

// Evict evicts the pod with the UID of pod. A pod that is gone is no error. If a disruption budget
// does not allow the eviction now, TooManyRequests is true for the error.
func (w *Writer) Evict(ctx context.Context, resource object.Resource, pod *object.Object) error {
	body, err := json.Marshal(policy.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace(), Name: pod.Name()},
		DeleteOptions: w.deleteOptions(pod),
	})
	if err != nil {
		return err
	}
	eviction := on("evict", http.MethodPost, resource, pod.Ref(), body)
	eviction.part = evictionPart
	if _, err = w.do(ctx, eviction); apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// TooManyRequests reports whether the server is busy, or a disruption budget does not allow an eviction now.
func TooManyRequests(err error) bool { return apierrors.IsTooManyRequests(err) }

// pageSize is the limit of a list request.
const pageSize = 500

// List reads the objects of a kind that match a label selector, not from a cache. An empty namespace means all.
func (w *Writer) List(ctx context.Context, resource object.Resource, namespace, selector string) ([]*object.Object, error) {
	var all []*object.Object
	page := read(resource, namespace, "")
	page.verb = "list"
	page.params = map[string]string{"labelSelector": selector, "limit": strconv.Itoa(pageSize)}
	for {
		body, err := w.do(ctx, page)
		if err != nil {
			return nil, err
		}
		metadata, err := object.ReadList(bytes.NewReader(body), func(data []byte) error {
			o, err := object.ParseAs(data, resource.APIVersion(), resource.Kind)
			all = append(all, o)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read list: %w", err)
		}
		if metadata.Continue == "" {
			return all, nil
		}
		page.params["continue"] = metadata.Continue
	}
}

// improved returns an error of the API server as what it means: a mismatch of the UID, or a patch that is no object of the kind.
func improved(err error) error {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is {
		return err
	}
	details := cmp.Or(status.ErrStatus.Details, &metav1.StatusDetails{})
	otherUID := func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" }
	switch {
	case apierrors.IsInvalid(err) && slices.ContainsFunc(details.Causes, otherUID):
		return newConflict("the object was replaced by another one with the same name")
	case status.ErrStatus.Code == http.StatusInternalServerError &&
		strings.HasPrefix(status.ErrStatus.Message, "failed to create typed patch object"):
		status.ErrStatus.Code, status.ErrStatus.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	}
	return err
}

func newConflict(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: message,
	}}
}

// apiRequest is a request to the API server about an object, or about all of a kind.
type apiRequest struct {
	// verb is that of metrics and traces, method that of HTTP.
	verb, method    string
	resource        object.Resource
	namespace, name string
	// part is a subresource, "" for the whole object.
	part string
	// accept and contentType are media types; JSON if empty.
	accept, contentType string
	// manager is the field manager; the default if empty.
	manager string
	params  map[string]string
	body    []byte
}

const evictionPart = "eviction"

func on(verb, method string, resource object.Resource, ref object.Ref, body []byte) apiRequest {
	return apiRequest{verb: verb, method: method, resource: resource, namespace: ref.Namespace, name: ref.Name, body: body}
}

func read(resource object.Resource, namespace, name string) apiRequest {
	return apiRequest{verb: "get", method: http.MethodGet, resource: resource, namespace: namespace, name: name}
}

// create returns a request that creates an object. For one that a manager applies later, unknown fields are rejected.
func create(resource object.Resource, o *object.Object, manager string) apiRequest {
	r := on("create", http.MethodPost, resource, o.Ref(), o.JSON())
	if r.manager = manager; manager != "" {
		r.params = map[string]string{"fieldValidation": metav1.FieldValidationStrict}
	}
	return r
}

func update(resource object.Resource, o *object.Object) apiRequest {
	return on("update", http.MethodPut, resource, o.Ref(), o.JSON())
}

func patchOf(verb string, as types.PatchType, resource object.Resource, ref object.Ref, patch []byte) apiRequest {
	r := on(verb, http.MethodPatch, resource, ref, patch)
	r.contentType = string(as)
	return r
}

// applied returns a request that applies an object. It forces conflicts: other managers' changes are drift.
func applied(a plan.Action, o *object.Object) apiRequest {
	r := patchOf("apply", types.ApplyPatchType, a.Resource, o.Ref(), o.JSON())
	r.manager, r.params = a.Manager, map[string]string{"force": "true"}
	return r
}

// inPlace returns the request that writes an object in place of a recreation.
func inPlace(a plan.Action, o *object.Object) apiRequest {
	if a.DryRunVerb == plan.Apply {
		return applied(a, o)
	}
	return update(a.Resource, o)
}

// onPart limits a request to the status. That is not validated, which takes time: the server prunes unknown fields.
func onPart(r apiRequest, part string) apiRequest {
	if part != "" {
		r.verb, r.part, r.params = r.verb+"_"+part, part, map[string]string{"fieldValidation": metav1.FieldValidationIgnore}
	}
	return r
}

// build returns a request for the client.
func (w *Writer) build(ctx context.Context, r apiRequest) *rest.Request {
	path := r.resource.Path(r.namespace, r.name)
	if r.method == http.MethodPost && r.part == "" {
		path = r.resource.Path(r.namespace, "")
	}
	to := w.client.Verb(r.method).AbsPath(path, r.part).SetHeader("Accept", cmp.Or(r.accept, "application/json"))
	for name, value := range r.params {
		to.Param(name, value)
	}
	for name, value := range trace.Headers(ctx) {
		to.SetHeader(name, value)
	}
	if w.user != "" {
		to.SetHeader(authentication.ImpersonateUserHeader, w.user)
	}
	if r.part == evictionPart {
		to.MaxRetries(0) // The caller decides when to retry, not the client.
	}
	if r.method == http.MethodGet {
		return to
	}
	to.SetHeader("Content-Type", cmp.Or(r.contentType, "application/json")).Body(r.body)
	if r.method == http.MethodDelete {
		return to // Its options are in the body.
	}
	to.Param("fieldManager", managerOr(r.manager))
	if w.options.DryRun {
		to.Param("dryRun", metav1.DryRunAll)
	}
	return to
}

func managerOr(manager string) string { return cmp.Or(manager, defaultManager) }

func (w *Writer) deleteOptions(o *object.Object) *metav1.DeleteOptions {
	options := &metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     metav1.NewUIDPreconditions(o.UID()),
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	}
	if w.options.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return options
}

// annotated returns an object with the annotation of the trace, if it is on.
func annotated(ctx context.Context, o *object.Object) *object.Object {
	value := trace.AnnotationOf(ctx)
	if value == "" {
		return o
	}
	with, err := o.WithValue(value, "metadata", "annotations", trace.Annotation)
	if err != nil {
		return o // What is wrong with the object, the API server says better.
	}
	return with
}

// endSpan ends the span of a request with what the API server stored.
func endSpan(s trace.Sent, body []byte, err error) {
	switch {
	case !s.Started():
	case err != nil:
		s.Failed(outcome(err), err)
	default:
		var stored struct{ Metadata metav1.ObjectMeta }
		_ = json.Unmarshal(body, &stored) // A Status, or a list, has no version of an object.
		version, _ := strconv.ParseUint(stored.Metadata.ResourceVersion, 10, 64)
		s.Stored(string(stored.Metadata.UID), version)
	}
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	return "Error"
}
