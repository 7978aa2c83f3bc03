package userclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Timeouts of requests.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
)

// Media types.
const (
	mediaTypeJSON  = "application/json"
	mediaTypeList  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	mediaTypeTable = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
)

// ErrUnreachable is wrapped by errors about an API server that does not respond or is
// unavailable. The request may be retried.
var ErrUnreachable = errors.New("the API server cannot be reached")

type requester struct {
	rest  rest.Interface
	hangs *hangDetector
}

func (r requester) read(ctx context.Context, accept string, request *rest.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.do(ctx, request.SetHeader("Accept", accept))
}

// do makes a request that is canceled if the API server hangs.
func (r requester) do(ctx context.Context, request *rest.Request) ([]byte, error) {
	ctx, stop := r.hangs.withHangCheck(ctx)
	defer stop()
	return doRequest(ctx, request)
}

func (r requester) get(ctx context.Context, accept string, request *rest.Request, into any) error {
	data, err := r.read(ctx, accept, request)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode response of %s: %w", request.URL().Path, err)
	}
	return nil
}

func (r requester) post(ctx context.Context, path string, review, into any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return fmt.Errorf("encode review: %w", err)
	}
	return r.get(ctx, mediaTypeJSON, r.rest.Post().AbsPath(path).SetHeader("Content-Type", mediaTypeJSON).Body(body), into)
}

// doRequest makes a request and classifies its error.
func doRequest(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, classifyError(ctx, err)
	}
	return result.Raw()
}

type classifiedError struct {
	class error
	err   error
}

func (r classifiedError) Error() string   { return r.err.Error() }
func (r classifiedError) Unwrap() []error { return []error{r.class, r.err} }

// classifyError adds ErrUnreachable or failure.ErrNotFound to an error.
func classifyError(ctx context.Context, err error) error {
	var status apierrors.APIStatus
	responded := errors.As(err, &status)
	switch {
	case errors.Is(context.Cause(ctx), errNotResponding):
		return classifiedError{ErrUnreachable, fmt.Errorf("%w: %w", ErrUnreachable, errNotResponding)}
	case errors.Is(context.Cause(ctx), context.Canceled):
		return err
	case !responded:
		return classifiedError{ErrUnreachable, fmt.Errorf("%w: %w", ErrUnreachable, err)}
	case apierrors.IsNotFound(err):
		return classifiedError{failure.ErrNotFound, err}
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err):
		return classifiedError{ErrUnreachable, err}
	}
	return err
}

// pathOf returns the URL path of a kind or an object. Names come from URLs, so names that would
// change the path are rejected.
func pathOf(kind object.Kind, namespace, name string) ([]string, error) {
	segments := []string{"/api", kind.Version}
	if kind.Group != "" {
		segments = []string{"/apis", kind.Group, kind.Version}
	}
	if kind.Namespaced && namespace != "" {
		segments = append(segments, "namespaces", namespace)
	}
	segments = append(segments, kind.Plural)
	if name != "" {
		segments = append(segments, name)
	}
	for _, segment := range segments[1:] {
		if problems := content.IsPathSegmentName(segment); segment == "" || len(problems) > 0 {
			return nil, fmt.Errorf("%q is not a name: %s: %w", segment, strings.Join(problems, ", "), failure.ErrNotFound)
		}
	}
	return segments, nil
}

// describe names an object or a kind in messages: "guitars shop/a".
func describe(kind object.Kind, namespace, name string) string {
	text := kind.Resource()
	switch {
	case name != "" && kind.Namespaced:
		return text + " " + namespace + "/" + name
	case name != "":
		return text + " " + name
	case namespace != "":
		return text + " in " + namespace
	}
	return text
}

// MaxParallel is how many requests of one page run at the same time.
const MaxParallel = 8

// InParallel calls do with the numbers below n, at most MaxParallel at the same time.
func InParallel(n int, do func(i int)) {
	workqueue.ParallelizeUntil(context.Background(), MaxParallel, n, do)
}

// FilterAllowed returns the items that are allowed, in order. It calls may in parallel on copies of the items.
func FilterAllowed[T any](all []T, may func(*T) bool) []T {
	items := slices.Clone(all)
	is := make([]bool, len(items))
	InParallel(len(items), func(i int) { is[i] = may(&items[i]) })
	var found []T
	for i := range items {
		if is[i] {
			found = append(found, items[i])
		}
	}
	return found
}
