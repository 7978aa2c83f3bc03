// Package watch lists and watches one path of the API server until it is closed.
//
// It knows versions, bookmarks and broken connections. What an object means is
// its callers' business: the load generator's, and the comparison's.
package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
)

// Head is what is read of every object. A type that is watched embeds it.
type Head struct {
	Kind     string   `json:"kind"`
	Metadata Metadata `json:"metadata"`
}

// Metadata is the part of an object's metadata that the bench needs.
type Metadata struct {
	Name        string            `json:"name"`
	Version     string            `json:"resourceVersion"`
	UID         string            `json:"uid"`
	Annotations map[string]string `json:"annotations"`
}

func (h *Head) head() *Head { return h }

// object is a type that embeds Head.
type object[T any] interface {
	*T
	head() *Head
}

// Watch goes on until it is closed.
type Watch struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Sink takes what is seen, from a goroutine of the watch.
type Sink[T any] struct {
	// See is called for each event, with its time; gone says that the object was
	// deleted.
	See func(object *T, gone bool, at time.Time)
	// Fail is called with the error that ends the watch.
	Fail func(error)
}

// Start watches a path and returns when all that was there has been seen.
func Start[T any, P object[T]](ctx context.Context, client *cluster.Client, path string, sink Sink[T]) (*Watch, error) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &Watch{cancel: cancel}
	s := &stream[T, P]{client: client, path: path, see: sink.See, synced: make(chan struct{})}
	ended := make(chan error, 1)
	w.running.Go(func() {
		err := s.follow(watching)
		ended <- err
		if watching.Err() == nil {
			sink.Fail(err)
		}
	})
	if err := s.waitSynced(ctx, ended); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close ends the watch.
func (w *Watch) Close() {
	w.cancel()
	w.running.Wait()
}

// stream is the connections of a watch, one after the other.
type stream[T any, P object[T]] struct {
	client *cluster.Client
	path   string
	see    func(object *T, gone bool, at time.Time)
	// synced is closed when what was there at first has been seen.
	synced chan struct{}
	// version is that of the last event.
	version string
}

func (s *stream[T, P]) waitSynced(ctx context.Context, ended <-chan error) error {
	select {
	case <-s.synced:
		return nil
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("watch %s: %w", s.path, context.Cause(ctx))
	}
}

// follow reads one watch after the other: an API server under load closes
// watches that are slow, and goes on from the last event when asked to.
func (s *stream[T, P]) follow(ctx context.Context) error {
	for {
		body, err := s.client.Stream(ctx, s.path, s.query())
		if err != nil {
			return err
		}
		err = s.read(body)
		_ = body.Close()
		if !errors.Is(err, errClosed) || ctx.Err() != nil || s.version == "" {
			return err
		}
	}
}

func (s *stream[T, P]) query() map[string]string {
	query := map[string]string{
		"watch":               "true",
		"allowWatchBookmarks": "true",
		"timeoutSeconds":      "86400",
	}
	if s.version == "" {
		query["sendInitialEvents"] = "true"
		query["resourceVersionMatch"] = "NotOlderThan"
	} else {
		query["resourceVersion"] = s.version
	}
	return query
}

// errClosed says that the other side has closed a watch.
var errClosed = errors.New("watch closed")

type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// read reads events until the watch ends, which it always does with an error.
func (s *stream[T, P]) read(body io.Reader) error {
	events := json.NewDecoder(body)
	for {
		var e event
		if err := events.Decode(&e); err != nil {
			return fmt.Errorf("%w: %s: %w", errClosed, s.path, err)
		}
		if err := s.take(e, time.Now()); err != nil {
			return fmt.Errorf("watch %s: %w", s.path, err)
		}
	}
}

func (s *stream[T, P]) take(e event, at time.Time) error {
	if e.Type == "ERROR" {
		return fmt.Errorf("refused: %s", e.Object)
	}
	seen := new(T)
	if err := json.Unmarshal(e.Object, seen); err != nil {
		return err
	}
	if e.Type != "BOOKMARK" {
		s.see(seen, e.Type == "DELETED", at)
	}
	metadata := P(seen).head().Metadata
	if metadata.Annotations["k8s.io/initial-events-end"] == "true" {
		close(s.synced)
	}
	if s.isSynced() {
		s.version = metadata.Version
	}
	return nil
}

// isSynced tells events in order from those of what was there at first, which
// come in any order: none of them is a place to go on from.
func (s *stream[T, P]) isSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}
