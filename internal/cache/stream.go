package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	machinery "k8s.io/apimachinery/pkg/watch"
)

// readAhead is the number of events that are parsed ahead of the cache.
const readAhead = 16

// stream reads the events of an open watch.
type stream struct {
	listWatcher *listWatcher
	body        io.ReadCloser
	frames      *frameReader
	events      chan machinery.Event
	cancel      context.CancelFunc
	// listing is set until the streamed list is complete.
	listing bool
}

// ResultChan is closed when the watch has ended.
func (s *stream) ResultChan() <-chan machinery.Event { return s.events }

// Stop ends the watch.
func (s *stream) Stop() { s.cancel() }

// run reads until the connection ends or is closed. Its end, even within an event, is no
// error: the reflector resumes. An incomplete streamed list must be requested again.
func (s *stream) run(ctx context.Context) {
	defer close(s.events)
	defer s.body.Close()
	for {
		event, err := s.next()
		if ctx.Err() != nil || errors.Is(err, errEnded) && !s.listing {
			s.listWatcher.options.Log.Debug("watch ended", "selection", s.listWatcher.selection.String(), "error", err)
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

// errEnded means that the connection ended.
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

// bookmark reads a BOOKMARK event, which also ends a streamed list.
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

// statusError returns the error of an ERROR event.
func statusError(data []byte) error {
	status := metav1.Status{}
	if err := json.Unmarshal(data, &status); err != nil {
		return fmt.Errorf("read error event: %w", err)
	}
	return apierrors.FromObject(&status)
}

// errorEvent returns the event that reports an error to the reflector.
func (s *stream) errorEvent(ctx context.Context, err error) machinery.Event {
	if !s.listing || reportsStream(err) {
		s.listWatcher.report(ctx, err)
	}
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	return machinery.Event{Type: machinery.Error, Object: &status}
}
