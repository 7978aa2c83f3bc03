package userclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/wait"
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

// Get reads an object.
func (r requester) Get(ctx context.Context, kind object.Kind, namespace, name string) (json.RawMessage, error) {
	path, err := pathOf(kind, namespace, name)
	if err != nil {
		return nil, err
	}
	data, err := r.read(ctx, mediaTypeJSON, r.rest.Get().AbsPath(path...))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", describe(kind, namespace, name), err)
	}
	return data, nil
}

// doRequest makes a request and classifies its error.
func doRequest(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, classifyError(ctx, err)
	}
	return result.Raw()
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

// pingTimeout is how soon an API server counts as unreachable. hangCheckAfter is how long a request may take before the
// API server is pinged, how long a result counts, and the timeout of a ping after one that failed.
const (
	pingTimeout    = 3 * time.Second
	hangCheckAfter = time.Second
)

// hangDetector distinguishes slow responses from an API server that accepts connections and
// never responds. Without it, each request to such a server would take the full timeout.
type hangDetector struct {
	rest rest.Interface

	mu sync.Mutex
	// err is the error of the last ping.
	err       error
	checkedAt time.Time
}

// withHangCheck cancels a request when the API server hangs. The caller calls stop.
func (p *hangDetector) withHangCheck(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		p.mu.Lock()
		failed := p.err != nil
		p.mu.Unlock()
		_ = wait.PollUntilContextCancel(watched, hangCheckAfter, failed, func(ctx context.Context) (bool, error) {
			failed = p.check(ctx) != nil
			if failed {
				cancel(errNotResponding)
			}
			return failed, nil
		})
	}()
	return watched, func() { cancel(context.Canceled) }
}

// check makes the cheapest request, unless one was made a moment ago. Any response counts.
func (p *hangDetector) check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.checkedAt) < hangCheckAfter {
		return p.err
	}
	limit := pingTimeout
	if p.err != nil {
		limit = hangCheckAfter
	}
	// Other requests use the result too, so it must not depend on this one.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	_, p.err = doRequest(limited, p.rest.Get().AbsPath("/version").SetHeader("Accept", mediaTypeJSON))
	if status := apierrors.APIStatus(nil); errors.As(p.err, &status) {
		p.err = nil
	}
	p.checkedAt = time.Now()
	return p.err
}
