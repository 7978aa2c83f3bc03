package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	machinery "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	reflectors "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// watchTimeoutMargin is how much longer than requested a watch may last before it is closed here.
const watchTimeoutMargin = 30 * time.Second

// listWatcher lists and watches a selection for the reflector, and reports its health. Only
// an open watch is healthy: a client that may list but not watch has a constant error.
type listWatcher struct {
	watch      *watch
	client     rest.Interface
	running    *sync.WaitGroup
	connection *connection
	// throttledSince is when throttling began; zero if it did not. Only the reflector's goroutine uses it.
	throttledSince time.Time
}

func (w *watch) run(ctx context.Context, client rest.Interface, running *sync.WaitGroup) {
	src := &listWatcher{watch: w, client: client, running: running}
	src.connection = &connection{options: w.options, report: src.reportLost}
	waits := reflectorClock{ctx: ctx, connection: src.connection}
	lists := &reflectors.ListWatch{ListWithContextFunc: src.list, WatchFuncWithContext: src.open}
	reflector := reflectors.NewReflectorWithOptions(lists, nil, reflectorStore{w}, reflectors.ReflectorOptions{
		Name:            w.selection.String(),
		TypeDescription: w.selection.Resource.String(),
		Clock:           waits,
		Backoff:         &wait.Backoff{Duration: 1}, // The clock computes the delay.
	})
	// RunWithContext would let the delay grow even if watches worked in between: a
	// reflector resets it only after two minutes without failures.
	for ctx.Err() == nil {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			w.options.Log.Debug("watch failed", "selection", w.selection.String(), "error", err)
		}
		<-waits.After(0)
	}
}

func (s *listWatcher) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := s.readList(ctx, options)
	if err != nil {
		s.fail(ctx, err)
		return nil, err
	}
	return list, nil
}

func (s *listWatcher) readList(ctx context.Context, options metav1.ListOptions) (*internalversion.List, error) {
	body, err := s.get(ctx, options)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	list := &internalversion.List{}
	list.ListMeta, err = object.ReadList(body, func(data []byte) error {
		o, err := s.parse(data)
		if err == nil {
			list.Items = append(list.Items, listItem{o})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	return list, nil
}

// open opens a watch, which may start with a streamed list.
func (s *listWatcher) open(ctx context.Context, options metav1.ListOptions) (machinery.Interface, error) {
	options.Watch = true
	lists := ptr.Deref(options.SendInitialEvents, false)
	agreed := time.Duration(ptr.Deref(options.TimeoutSeconds, 600)) * time.Second
	timed, cancel := context.WithTimeout(ctx, agreed+watchTimeoutMargin)
	body, err := s.get(timed, options)
	if err != nil {
		if !lists || reportsStream(err) {
			s.fail(ctx, err)
		}
		if lists && apierrors.IsInvalid(err) {
			s.watch.options.onUnstreamed()
		}
		cancel()
		if _, unanswered := errors.AsType[*url.Error](err); unanswered && !lists {
			err = unavailableError{err}
		}
		return nil, err
	}
	s.throttledSince = time.Time{}
	s.connection.connected()
	if !lists {
		s.watch.report(nil)
	}
	opened := &stream{
		listWatcher: s,
		body:        body,
		frames:      newFrameReader(body),
		events:      make(chan machinery.Event, readAhead),
		cancel:      cancel,
		listing:     lists,
	}
	s.running.Go(func() {
		defer cancel()
		defer s.connection.disconnected(ctx)
		opened.run(timed)
	})
	return opened, nil
}

// unavailableError is the error of a request without a response. The reflector resumes a watch only if the connection
// was refused, and lists again after any other error. A hanging API server or a lost network needs no list either.
type unavailableError struct{ error }

func (o unavailableError) Unwrap() []error { return []error{o.error, syscall.ECONNREFUSED} }

// reportsStream reports whether the error of a streamed list is the one to report: the reflector retries it, or it took
// long. After any other error the reflector requests an ordinary list, whose error is the one to report.
func reportsStream(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) || errors.Is(err, errIdle)
}

func (s *listWatcher) accept(single bool) string {
	switch {
	case !s.watch.selection.Metadata:
		return "application/json"
	case single:
		return "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	return "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
}

// parse parses an object. Items of a list lack their type, and metadata has another one.
func (s *listWatcher) parse(data []byte) (*object.Object, error) {
	resource := s.watch.selection.Resource
	parse := object.ParseAs
	if s.watch.selection.Managed {
		parse = object.ParseWithManagedFields
	}
	o, err := parse(data, resource.APIVersion(), resource.Kind)
	if err != nil || o.Kind() == resource.Kind {
		return o, err
	}
	return o.Edited(object.Edit{Value: strconv.AppendQuote(nil, resource.Kind), Path: []string{"kind"}},
		object.Edit{Value: strconv.AppendQuote(nil, resource.APIVersion()), Path: []string{"apiVersion"}})
}

// fail reports an error. Expired versions are none: the reflector lists again.
func (s *listWatcher) fail(ctx context.Context, err error) {
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	if ctx.Err() == nil && !expired && !s.isThrottledBriefly(err) {
		s.watch.report(StableError(err))
	}
}

// reportLost reports a lost connection, unless another error is known.
func (s *listWatcher) reportLost(err error) {
	if s.watch.currentErr() == nil {
		s.watch.report(err)
	}
}

// isThrottledBriefly reports whether the error is throttling within the grace period.
func (s *listWatcher) isThrottledBriefly(err error) bool {
	if !apierrors.IsTooManyRequests(err) {
		s.throttledSince = time.Time{}
		return false
	}
	if s.throttledSince.IsZero() {
		s.throttledSince = time.Now()
	}
	return time.Since(s.throttledSince) < s.watch.options.GracePeriod
}

// StableError removes details that differ between attempts, such as local ports, and the URL.
func StableError(err error) error {
	var attempt *url.Error
	if !errors.As(err, &attempt) {
		return err
	}
	err = attempt.Err
	if connection, ok := errors.AsType[*net.OpError](err); ok {
		err = connection.Err
	}
	return fmt.Errorf("reach the API server: %w", err)
}

func (s *listWatcher) get(ctx context.Context, options metav1.ListOptions) (io.ReadCloser, error) {
	options.LabelSelector = s.watch.selection.Labels
	options.FieldSelector = s.watch.selection.fields()
	request := s.client.Get()
	if s.watch.selection.User != "" {
		request = request.SetHeader(authentication.ImpersonateUserHeader, s.watch.selection.User)
	}
	request.
		AbsPath(s.watch.selection.Resource.Path(s.watch.selection.Namespace, "")).
		SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.SchemeGroupVersion).
		SetHeader("Accept", s.accept(options.Watch)).
		MaxRetries(0) // The reflector retries, and errors must be seen.
	body, err := openUnlessIdle(ctx, s.watch.options.IdleTimeout, request.Stream)
	if err != nil {
		s.connection.refused(err)
	}
	return body, err
}

func (s Selection) fields() string {
	if s.Name == "" {
		return s.Fields
	}
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name).String()
	return strings.TrimSuffix(name+","+s.Fields, ",")
}

// Adapters between a watch and client-go's Reflector, which knows when to list, where to resume and how long to wait.

// listItem is an object for the reflector, which needs only its name and version.
type listItem struct{ *object.Object }

// GetObjectKind is not used.
func (i listItem) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the item itself, since objects are immutable.
func (i listItem) DeepCopyObject() runtime.Object { return i }

// GetObjectMeta returns the metadata that the reflector needs.
func (i listItem) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace(), Name: i.Name(), ResourceVersion: i.ResourceVersion()}
}

// reflectorStore is the store that the reflector fills.
type reflectorStore struct{ watch *watch }

// Add handles an ADDED event.
func (s reflectorStore) Add(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverUpdated(obj.(listItem).Object) })
	return nil
}

// Update handles a MODIFIED event.
func (s reflectorStore) Update(obj any) error { return s.Add(obj) }

// Delete handles a DELETED event.
func (s reflectorStore) Delete(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverDeleted(obj.(listItem).Object) })
	return nil
}

var _ reflectors.ReflectorBookmarkStore = reflectorStore{}

// Bookmark handles a BOOKMARK event.
func (s reflectorStore) Bookmark(resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err == nil {
		s.watch.apply(func(c *watchCache) []notification { c.advance(version); return nil })
	}
	return err
}

// Replace handles a complete list.
func (s reflectorStore) Replace(items []any, resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err != nil {
		return err
	}
	list := make([]*object.Object, len(items))
	for i := range items {
		list[i] = items[i].(listItem).Object
	}
	s.watch.replace(list, version)
	return nil
}

// Resync does nothing: resyncs are those of the queue.
func (s reflectorStore) Resync() error { return nil }

func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version %q is no integer", text)
	}
	return version, nil
}

// reflectorClock is the real clock, except that it waits for the delay of the connection, or until ctx ends. The
// reflector waits only between attempts, and ignores its context when a watch is refused.
type reflectorClock struct {
	clock.RealClock
	ctx        context.Context //nolint:containedctx // The interface of clocks passes no context.
	connection *connection
}

// After returns a channel that receives when the next attempt is due, or when ctx ends.
func (c reflectorClock) After(time.Duration) <-chan time.Time {
	passed := make(chan time.Time, 1)
	waiting, cancel := context.WithTimeout(c.ctx, c.connection.nextDelay())
	context.AfterFunc(waiting, func() {
		cancel()
		passed <- time.Now()
	})
	return passed
}
