package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Intervals of the event stream: between two refreshes, between checks of the session, the processes and the API
// server, until relative times are stale, before a failed process is watched again; and the timeout of a send. A page
// that is slow to refresh rests longer on its own.
const (
	minRefreshInterval  = 500 * time.Millisecond
	pollInterval        = 2 * time.Second
	staleAfter          = 10 * time.Second
	sourceRetryInterval = 3 * time.Second
	sendTimeout         = 10 * time.Second
)

// eventStream sends server-sent events to one page: "change" when the page should refresh, "api" when the API server is
// "down" or "up" again, "expired" when the user has to sign in again.
type eventStream struct {
	*request
	out     *http.ResponseController
	changed chan struct{}
	// sources are the watched processes.
	sources map[inspect.Source]context.CancelFunc
	// apiServerDown is the state that the page knows.
	apiServerDown bool
	// lastChange is when the last change event was sent.
	lastChange time.Time
}

func streamEvents(req *request) error {
	l := &eventStream{
		request: req, out: http.NewResponseController(req.W),
		changed: make(chan struct{}, 1), sources: map[inspect.Source]context.CancelFunc{},
	}
	if !req.streams.Acquire(req.User.Name) {
		return &web.Problem{
			Status: http.StatusTooManyRequests, Title: "Too many pages",
			Text: fmt.Sprintf("You have %d live pages open.", maxStreams), Hint: "Close some of them.",
		}
	}
	defer req.streams.Release(req.User.Name)
	if err := web.SetReadDeadline(req.W, time.Time{}); err != nil {
		return err
	}
	req.W.Header().Set("Content-Type", "text/event-stream")
	// Proxies must not buffer the stream.
	req.W.Header().Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	if watched := req.Query("watch"); watched != "" {
		go req.watchResource(ctx, watched, l.changed)
	}
	notify(l.changed) // Something may have changed since the page was rendered.
	l.watchSources(ctx)
	l.run(ctx)
	return nil
}

func (l *eventStream) run(ctx context.Context) {
	poll, refresh := time.NewTicker(pollInterval), time.NewTimer(minRefreshInterval)
	defer poll.Stop()
	defer refresh.Stop()
	// Changes are ignored until the page may refresh again, which combines them into one.
	var changes <-chan struct{}
	open := l.send(": open\n\n") && l.checkAPIServer(ctx)
	for open {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			open = l.poll(ctx)
		case <-refresh.C:
			changes = l.changed
		case <-changes:
			open = l.send("event: change\ndata:\n\n")
			changes, l.lastChange = nil, time.Now()
			refresh.Reset(minRefreshInterval)
		}
	}
}

// poll checks for an expired session, new and stopped processes, stale pages, and the API server.
func (l *eventStream) poll(ctx context.Context) (open bool) {
	// An unreachable API server does not end a session.
	if _, err := l.Authenticator.Authenticate(l.R); errors.Is(err, access.ErrExpired) || errors.Is(err, access.ErrSignedOut) {
		l.send("event: expired\ndata:\n\n")
		return false
	}
	if l.watchSources(ctx) || time.Since(l.lastChange) >= staleAfter {
		notify(l.changed)
	}
	return l.send(": here\n\n") && l.checkAPIServer(ctx)
}

// send writes to the page and reports whether it is still open. A page that does not read is
// closed. There is no deadline between two sends, since it would end an HTTP/2 stream.
func (l *eventStream) send(text string) bool {
	if !l.setWriteDeadline(time.Now().Add(sendTimeout)) {
		return false
	}
	if _, err := fmt.Fprint(l.W, text); err != nil {
		return false
	}
	return l.out.Flush() == nil && l.setWriteDeadline(time.Time{})
}

func (l *eventStream) setWriteDeadline(end time.Time) bool {
	err := l.out.SetWriteDeadline(end)
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// checkAPIServer tells the page when the API server goes down or comes back.
func (l *eventStream) checkAPIServer(ctx context.Context) (open bool) {
	gone := l.Cluster.IsDown(ctx)
	if gone == l.apiServerDown {
		return true
	}
	l.apiServerDown = gone
	return l.send("event: api\ndata: " + map[bool]string{true: "down", false: "up"}[gone] + "\n\n")
}

// watchSources watches all current processes, and reports whether they changed.
func (l *eventStream) watchSources(ctx context.Context) (changed bool) {
	present := map[inspect.Source]bool{}
	for _, source := range l.Processes.Sources(ctx) {
		present[source] = true
		if l.sources[source] == nil {
			awaiting, stop := context.WithCancel(ctx)
			l.sources[source], changed = stop, true
			go watchSource(awaiting, source, l.changed)
		}
	}
	for source, stop := range l.sources {
		if !present[source] {
			stop()
			delete(l.sources, source)
			changed = true
		}
	}
	return changed
}

// watchResource notifies on each change of a resource, or of one object, that the user may watch.
func (req *request) watchResource(ctx context.Context, resource string, changed chan<- struct{}) {
	kind, err := req.API.FindCurrentKind(ctx, resource)
	if err == nil {
		err = req.API.Watch(ctx, kind, req.Query("namespace"), req.Query("name"), func() { notify(changed) })
	}
	if err != nil && ctx.Err() == nil {
		req.Log.Debug("page cannot watch", "resource", resource, "error", err.Error())
	}
}

func watchSource(ctx context.Context, source inspect.Source, changed chan<- struct{}) {
	var revision uint64
	for ctx.Err() == nil {
		next, err := source.Await(ctx, revision)
		switch {
		case err != nil:
			select {
			case <-time.After(sourceRetryInterval):
			case <-ctx.Done():
			}
		case next != revision:
			notify(changed)
		}
		revision = next
	}
}

// notify sets the flag if it is not set yet.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// maxStreams is the number of event streams of one user: each takes a connection and watches.
const maxStreams = 32
