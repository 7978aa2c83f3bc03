package userclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// FieldError is the error of one field.
type FieldError struct {
	// Field is a path such as "spec.strings[0].gauge"; empty for the whole object.
	Field   string
	Message string
}

// DescribeError returns why a request was rejected, and the errors of fields if known.
func DescribeError(err error) (title string, fields []FieldError) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error(), nil
	}
	s := status.Status()
	fields = fieldCauses(s.Details)
	if len(fields) == 0 {
		fields = parseFieldErrors(s.Message)
	}
	if title, _, cut := strings.Cut(s.Message, ": "); cut && len(fields) > 0 {
		return title, fields // The rest of the message repeats the fields.
	}
	return s.Message, fields
}

// fieldCauses returns the causes sorted by field, since their order differs between requests.
func fieldCauses(details *metav1.StatusDetails) []FieldError {
	if details == nil {
		return nil
	}
	var found []FieldError
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse || strings.Contains(cause.Message, uncheckedRules) {
			continue
		}
		// The path of the whole object is "" or "<nil>". A message may begin with the value and the field.
		field := strings.TrimPrefix(strings.TrimPrefix(cause.Field, "<nil>"), ".")
		message := invalidValuePrefix.ReplaceAllString(cause.Message, "")
		found = append(found, FieldError{field, strings.TrimPrefix(message, field+" in body ")})
	}
	slices.SortStableFunc(found, func(a, b FieldError) int { return cmp.Compare(a.Field, b.Field) })
	return found
}

// uncheckedRules is a cause that only says that there may be more.
const uncheckedRules = "some validation rules were not checked because the object was invalid"

// invalidValuePrefix matches the prefix of a cause that repeats the value.
var invalidValuePrefix = regexp.MustCompile(`^Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|[-+.0-9e]+|null|true|false|\{.*\}|\[.*\]): )?`)

var (
	strictFieldPattern = regexp.MustCompile(`(unknown|duplicate) field "([^"]+)"`)
	typeErrorPattern   = regexp.MustCompile(`cannot unmarshal (\S+) into Go struct field [^.\s]+\.(\S+) of type (\S+)`)
)

func parseFieldErrors(message string) []FieldError {
	var found []FieldError
	for _, m := range strictFieldPattern.FindAllStringSubmatch(message, -1) {
		found = append(found, FieldError{m[2], m[1] + " field"})
	}
	for _, m := range typeErrorPattern.FindAllStringSubmatch(message, -1) {
		found = append(found, FieldError{m[2], "must be of type " + m[3] + ": \"" + m[1] + "\""})
	}
	return found
}

// IsUnreachable reports whether an error means that nothing responded.
func IsUnreachable(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// AffectsAllObjects reports whether an error is not about one object: the API server is
// unreachable or overloaded, or the user is unauthorized or has left.
func AffectsAllObjects(err error) bool {
	if _, later := apierrors.SuggestsClientDelay(err); apierrors.IsTooManyRequests(err) && !later {
		return false // A webhook can return that too.
	}
	return IsUnreachable(err) || apierrors.IsUnauthorized(err) || errors.Is(err, context.Canceled)
}

// pingTimeout is how soon an API server counts as unreachable. hangCheckAfter is how long a request may take before the
// API server is pinged, how long a result counts, and the timeout of a ping after one that failed.
const (
	pingTimeout    = 3 * time.Second
	hangCheckAfter = time.Second
)

// errNotResponding is the cause of canceled requests.
var errNotResponding = errors.New("it does not respond")

// hangDetector distinguishes slow responses from an API server that accepts connections and
// never responds. Without it, each request to such a server would take the full timeout.
type hangDetector struct {
	rest rest.Interface

	mu sync.Mutex
	// err is the error of the last ping.
	err       error
	checkedAt time.Time
}

// IsDown reports whether the API server does not respond at all.
func (c *Cluster) IsDown(ctx context.Context) bool { return c.hangs.check(ctx) != nil }

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
