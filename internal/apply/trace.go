package apply

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// reads are the verbs of requests that change nothing.
var reads = map[string]bool{"get": true, "list": true, "try": true}

type newNameKey struct{}

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

// startSpan starts the span of a request, which carries the trace to the API server.
func (w *Writer) startSpan(ctx context.Context, resource object.Resource, verb string, request *rest.Request) (context.Context,
	trace.Sent) {
	if !trace.On(ctx) {
		return ctx, trace.Sent{}
	}
	namespace, name := namesIn(request.URL().Path, resource)
	if created, is := ctx.Value(newNameKey{}).(string); is && verb == "create" {
		name = created
	}
	ctx, span := trace.StartRequest(ctx, trace.APIRequest{
		Verb: verb, Resource: resource.Plural, Kind: resource.Kind, Namespace: namespace, Name: name, Write: !w.options.DryRun &&
			!reads[verb],
	})
	for name, value := range trace.Headers(ctx) {
		request.SetHeader(name, value)
	}
	return ctx, span
}

// namesIn returns the namespace and the name in the path of a request.
func namesIn(path string, resource object.Resource) (namespace, name string) {
	version := strings.TrimSuffix(resource.Path("", ""), resource.Plural)
	_, below, _ := strings.Cut(path, version)
	parts := strings.Split(below, "/")
	if resource.Namespaced && len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 1 {
		name = parts[1]
	}
	return namespace, name
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
