package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	machinery "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	reflectors "k8s.io/client-go/tools/cache"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// watchTimeoutMargin is how much longer than agreed a watch may last before we take the
// API server for dead and hang up ourselves.
const watchTimeoutMargin = 30 * time.Second

// listWatcher lists and watches a selection for the reflector, and reports how that
// goes. An open watch alone counts as health: who may list but not watch is
// told so all the time, not every other moment.
type listWatcher struct {
	client     rest.Interface
	selection  Selection
	health     *health
	running    *sync.WaitGroup
	log        *slog.Logger
	connection *connection
	// gracePeriod is how long the API server may be busy before that is worth a
	// word: with a kind whose CRD has just been made it is for a second or two.
	gracePeriod time.Duration
	// idleTimeout is how long an open watch may say nothing.
	idleTimeout time.Duration
	// throttledSince is since when the API server has had no time for us; zero when it
	// has. Only the reflector's goroutine uses it.
	throttledSince time.Time
}

var _ reflectors.ListerWatcherWithContext = &listWatcher{}

// List is ListWithContext.
func (s *listWatcher) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch is WatchWithContext.
func (s *listWatcher) Watch(options metav1.ListOptions) (machinery.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext reads a list, or a page of it.
func (s *listWatcher) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := s.list(ctx, options)
	if err != nil {
		s.report(ctx, err)
		return nil, err
	}
	return list, nil
}

func (s *listWatcher) list(ctx context.Context, options metav1.ListOptions) (*internalversion.List, error) {
	body, err := s.get(ctx, options)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return s.readList(body)
}

// WatchWithContext opens a watch, which may begin with a streamed list.
func (s *listWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (machinery.Interface, error) {
	options.Watch = true
	lists := options.SendInitialEvents != nil && *options.SendInitialEvents
	halt := ctx
	ctx, cancel := context.WithTimeout(ctx, watchTimeout(options))
	body, err := s.get(ctx, options)
	if err != nil {
		if !lists || retriesStream(err) {
			s.report(ctx, err)
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
		s.health.report(nil)
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
		defer s.connection.disconnected(halt)
		opened.run(ctx)
	})
	s.running.Go(func() { opened.closeWhenIdle(ctx) })
	return opened, nil
}

// unavailableError is the error of a request without a response. The reflector resumes a watch
// where it was if the connection was refused, and lists anew after any other error; an
// API server that hung, or a network that was gone, is no more reason for a list.
type unavailableError struct{ error }

func (o unavailableError) Unwrap() []error { return []error{o.error, syscall.ECONNREFUSED} }

// watchTimeout is when we hang up although the API server has not.
func watchTimeout(options metav1.ListOptions) time.Duration {
	agreed := 10 * time.Minute
	if options.TimeoutSeconds != nil {
		agreed = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	return agreed + watchTimeoutMargin
}

// retriesStream says that the reflector will go on trying to stream a list after
// the error. After any other it asks for an ordinary list, and that one's error
// is the one worth reporting.
func retriesStream(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
}

// accept is the form in which the objects are wanted.
func (s *listWatcher) accept(single bool) string {
	switch {
	case !s.selection.Metadata:
		return "application/json"
	case single:
		return "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	return "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
}

// parse reads an object as it comes. An item of a list does not say what it is,
// and metadata alone says that it is that.
func (s *listWatcher) parse(data []byte) (*object.Object, error) {
	resource := s.selection.Resource
	parse := object.ParseAs
	if s.selection.Managed {
		parse = object.ParseWithManagedFields
	}
	o, err := parse(data, resource.APIVersion(), resource.Kind)
	if err != nil || o.Kind() == resource.Kind {
		return o, err
	}
	if o, err = o.With(fmt.Appendf(nil, "%q", resource.Kind), "kind"); err != nil {
		return nil, err
	}
	return o.With(fmt.Appendf(nil, "%q", resource.APIVersion()), "apiVersion")
}

// report passes on what hinders the watch. That its versions have expired
// does not: it is the sign to list anew.
func (s *listWatcher) report(ctx context.Context, err error) {
	expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	if ctx.Err() == nil && !expired && !s.isThrottledBriefly(err) {
		s.health.report(fmt.Errorf("watch %s: %w", s.selection, stableError(err)))
	}
}

// reportLost reports that the watch has had no connection for a while, unless something else
// that hinders it is known.
func (s *listWatcher) reportLost(err error) {
	if s.health.current() == nil {
		s.health.report(fmt.Errorf("watch %s: %w", s.selection, err))
	}
}

// isThrottledBriefly says that the error is no more than a busy moment so far.
func (s *listWatcher) isThrottledBriefly(err error) bool {
	if !apierrors.IsTooManyRequests(err) {
		s.throttledSince = time.Time{}
		return false
	}
	if s.throttledSince.IsZero() {
		s.throttledSince = time.Now()
	}
	return time.Since(s.throttledSince) < s.gracePeriod
}

// stableError leaves out what differs from one attempt to the next, as the port
// that a connection came from, and what says nothing to a user.
func stableError(err error) error {
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
	options.LabelSelector = s.selection.Labels
	options.FieldSelector = s.selection.fields()
	return s.client.Get().
		AbsPath(s.selection.Resource.Path(s.selection.Namespace, "")).
		SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.SchemeGroupVersion).
		SetHeader("Accept", s.accept(options.Watch)).
		MaxRetries(0). // the reflector tries again, and what went wrong is to be seen
		Stream(ctx)
}

// fields is the field selector of a selection.
func (s Selection) fields() string {
	if s.Name == "" {
		return s.Fields
	}
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name).String()
	if s.Fields == "" {
		return name
	}
	return name + "," + s.Fields
}
