package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// How often a page is told of changes at most, how often it hears that the
// connection stands, and how soon a source that does not answer is asked again.
const (
	liveEvery  = 500 * time.Millisecond
	livePulse  = 15 * time.Second
	sourceRest = 3 * time.Second
)

// followChanges tells a page that something has changed, in server-sent events, for
// as long as it stays open. What has changed the page asks for itself.
func followChanges(v *visit) error {
	out := http.NewResponseController(v.w)
	if err := out.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	// Proxies are not to gather what is to arrive now.
	v.w.Header().Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithCancel(v.context())
	defer cancel()
	changed := make(chan struct{}, 1)
	for _, source := range v.options.Sources(ctx) {
		go await(ctx, source, changed)
	}
	if watched := v.query("watch"); watched != "" {
		go v.watch(ctx, watched, changed)
	}
	return v.tell(out, changed)
}

// tell writes events until the page is closed.
func (v *visit) tell(out *http.ResponseController, changed <-chan struct{}) error {
	send := func(text string) bool {
		if _, err := fmt.Fprint(v.w, text); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	pulse := time.NewTicker(livePulse)
	defer pulse.Stop()
	alive := send(": open\n\n")
	for alive {
		select {
		case <-v.context().Done():
			return nil
		case <-pulse.C:
			if _, err := v.gate.Visitor(v.r); err != nil {
				send("event: expired\ndata:\n\n")
				return nil
			}
			alive = send(": here\n\n")
		case <-changed:
			alive = send("event: change\ndata:\n\n") && pause(v.context(), liveEvery)
		}
	}
	return nil
}

// watch notes each change of the objects of a kind, as far as the visitor may see
// them, until ctx ends.
func (v *visit) watch(ctx context.Context, resource string, changed chan<- struct{}) {
	kind, err := v.api.Kind(ctx, resource)
	if err == nil {
		err = v.api.Watch(ctx, kind, v.query("namespace"), func() { note(changed) })
	}
	if err != nil && ctx.Err() == nil {
		v.log.Debug("a page is not told of changes", "resource", resource, "error", err.Error())
	}
}

// await notes each change of a source until ctx ends.
func await(ctx context.Context, source inspect.Source, changed chan<- struct{}) {
	var revision uint64
	first := true
	for ctx.Err() == nil {
		next, err := source.Await(ctx, revision)
		switch {
		case err != nil:
			if !pause(ctx, sourceRest) {
				return
			}
		case !first && next != revision:
			note(changed)
		}
		revision, first = next, false
	}
}

// note says that there was a change, to who has not heard it yet.
func note(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// pause waits, and says whether there is still a reason to go on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
