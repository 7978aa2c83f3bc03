package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	machinery "k8s.io/apimachinery/pkg/watch"
)

// readAhead is how many events may be parsed before the cache takes them.
const readAhead = 16

// stream is one open watch: it reads events off the connection, as objects.
type stream struct {
	listWatcher *listWatcher
	body        io.ReadCloser
	frames      *frameReader
	events      chan machinery.Event
	cancel      context.CancelFunc
	// listing says that the list which the watch began with is not complete yet.
	listing bool
	// active says that there was an event lately.
	active atomic.Bool
}

// ResultChan is closed when the watch has ended.
func (s *stream) ResultChan() <-chan machinery.Event { return s.events }

// Stop ends the watch.
func (s *stream) Stop() { s.cancel() }

// run reads until the connection ends or is hung up. Its end, be it in the
// middle of an event, is no error: the reflector resumes where it was. But a
// list that was not completed has to be asked for in the other way.
func (s *stream) run(ctx context.Context) {
	defer close(s.events)
	defer s.body.Close()
	for {
		event, err := s.next()
		s.active.Store(true)
		if ctx.Err() != nil || errors.Is(err, errEnded) && !s.listing {
			return
		}
		if err != nil {
			event = s.errorEvent(ctx, err)
		}
		select {
		case s.events <- event:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// errEnded says that the connection ended, in good order or not.
var errEnded = errors.New("the connection ended")

// next reads one event.
func (s *stream) next() (machinery.Event, error) {
	kind, data, err := s.frames.next()
	var syntax *json.SyntaxError
	if err != nil && !errors.As(err, &syntax) {
		return machinery.Event{}, fmt.Errorf("%w: %w", errEnded, err)
	}
	if err != nil {
		return machinery.Event{}, fmt.Errorf("read event: %w", err)
	}
	switch kind {
	case machinery.Bookmark:
		return s.bookmark(data)
	case machinery.Error:
		return machinery.Event{}, statusError(data)
	}
	o, err := s.listWatcher.parse(data)
	if err != nil {
		return machinery.Event{}, fmt.Errorf("read %s event: %w", kind, err)
	}
	return machinery.Event{Type: kind, Object: listItem{o}}, nil
}

// bookmark reads an event that says how far the watch has come, and that its
// list is complete.
func (s *stream) bookmark(data []byte) (machinery.Event, error) {
	mark := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(data, mark); err != nil {
		return machinery.Event{}, fmt.Errorf("read bookmark: %w", err)
	}
	if s.listing && mark.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		s.listing = false
		s.listWatcher.health.report(nil)
	}
	return machinery.Event{Type: machinery.Bookmark, Object: mark}, nil
}

// statusError is what an ERROR event says.
func statusError(data []byte) error {
	status := metav1.Status{}
	if err := json.Unmarshal(data, &status); err != nil {
		return fmt.Errorf("read error event: %w", err)
	}
	return apierrors.FromObject(&status)
}

// errorEvent is the event that tells the reflector of an error.
func (s *stream) errorEvent(ctx context.Context, err error) machinery.Event {
	if !s.listing || retriesStream(err) {
		s.listWatcher.report(ctx, err)
	}
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	return machinery.Event{Type: machinery.Error, Object: &status}
}
