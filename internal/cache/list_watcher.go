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
	"k8s.io/apimachinery/pkg/util/wait"
	machinery "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	reflectors "k8s.io/client-go/tools/cache"
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
	src.connection = &connection{options: w.options, report: func(err error) {
		if w.currentErr() == nil { // Another error says more than a lost connection.
			w.report(err)
		}
	}}
	waits := reflectorClock{ctx: ctx, connection: src.connection}
	lists := &reflectors.ListWatch{ListWithContextFunc: src.list, WatchFuncWithContext: src.open}
	reflector := reflectors.NewReflectorWithOptions(lists, nil, reflectorStore{w}, reflectors.ReflectorOptions{
		Name:            w.selection.String(),
		TypeDescription: w.selection.Resource.String(),
		Clock:           waits,
		Backoff:         &wait.Backoff{Duration: 1}, // The clock computes the delay.
	})
	// RunWithContext resets the delay only after two minutes without failures, even if watches worked in between.
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
		watch: s.watch, parse: s.parse, fail: s.fail, body: body, frames: newFrameReader(body),
		events: make(chan machinery.Event, readAhead), cancel: cancel, listing: lists,
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
	options.FieldSelector = s.watch.selection.Fields
	if name := s.watch.selection.Name; name != "" {
		named := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		options.FieldSelector = strings.TrimSuffix(named+","+options.FieldSelector, ",")
	}
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
