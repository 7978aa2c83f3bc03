package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// Observer watches a namespace's parents and children until it is closed.
type Observer struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Observe tells see of every parent and child of a namespace, from several
// goroutines, and fail if it cannot go on. It returns when all that was there
// has been told.
func Observe(ctx context.Context, client *cluster.Client, namespace string, see func(Sighting, time.Time), fail func(error)) (*Observer, error) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o := &Observer{cancel: cancel}
	for _, path := range []string{ThingsPath(namespace), ChildrenPath(namespace)} {
		s := &stream{client: client, path: path, see: see, synced: make(chan struct{})}
		ended := make(chan error, 1)
		o.running.Go(func() {
			err := s.follow(watching)
			ended <- err
			if watching.Err() == nil {
				fail(err)
			}
		})
		if err := s.waitSynced(ctx, ended); err != nil {
			o.Close()
			return nil, err
		}
	}
	return o, nil
}

// Close ends the watches.
func (o *Observer) Close() {
	o.cancel()
	o.running.Wait()
}

// stream is one watch.
type stream struct {
	client *cluster.Client
	path   string
	see    func(Sighting, time.Time)
	// synced is closed when what was there at first has been seen.
	synced chan struct{}
	// version is that of the last event.
	version string
}

func (s *stream) waitSynced(ctx context.Context, ended <-chan error) error {
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
func (s *stream) follow(ctx context.Context) error {
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

func (s *stream) query() map[string]string {
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

// object is what is read of a parent, a child or a bookmark.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Version     string            `json:"resourceVersion"`
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec   thing.Spec        `json:"spec"`
	Status thing.Status      `json:"status"`
	Data   map[string]string `json:"data"`
}

// read reads events until the watch ends, which it always does with an error.
func (s *stream) read(body io.Reader) error {
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

func (s *stream) take(e event, at time.Time) error {
	if e.Type == "ERROR" {
		return fmt.Errorf("refused: %s", e.Object)
	}
	var seen object
	if err := json.Unmarshal(e.Object, &seen); err != nil {
		return err
	}
	if e.Type != "BOOKMARK" {
		s.see(sighting(&seen, e.Type == "DELETED"), at)
	}
	if seen.Metadata.Annotations["k8s.io/initial-events-end"] == "true" {
		close(s.synced)
	}
	if s.isSynced() {
		s.version = seen.Metadata.Version
	}
	return nil
}

// isSynced tells events in order from those of what was there at first, which
// come in any order: none of them is a place to go on from.
func (s *stream) isSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

func sighting(seen *object, gone bool) Sighting {
	s := Sighting{
		Name:   seen.Metadata.Name,
		UID:    seen.Metadata.UID,
		Gone:   gone,
		Child:  seen.Kind != thing.Kind,
		Wanted: seen.Spec.Value,
		Ready:  seen.Status.Ready,
		Value:  seen.Status.Value,
	}
	if s.Child {
		s.Value = seen.Data[thing.ValueKey]
	}
	return s
}
