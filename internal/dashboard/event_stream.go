package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// How often a page is told of changes at most, if it takes no time to make; how often it hears that the connection
// stands, how often it is looked whether processes and the API server are there, after how
// long ages, rates and what is due have moved on while nothing changed, how soon a process that does not answer is asked again, and how long sending may take.
const (
	minRefreshInterval  = 500 * time.Millisecond
	keepaliveInterval   = 15 * time.Second
	pollInterval        = 2 * time.Second
	staleAfter          = 10 * time.Second
	sourceRetryInterval = 3 * time.Second
	sendTimeout         = 10 * time.Second
)

// eventStream tells one page of changes, in server-sent events: "change" says that something
// has changed, which the page asks for itself then; "api" that the API server is "gone"
// or "back"; "expired" that the visitor has to sign in again.
type eventStream struct {
	*request
	out     *http.ResponseController
	changed chan struct{}
	// sources are the processes whose changes are awaited.
	sources map[model.Source]context.CancelFunc
	// apiServerDown says that the page knows that the API server does not answer.
	apiServerDown bool
	// lastChange is when the page was told of a change last.
	lastChange time.Time
}

// streamEvents tells a page of changes for as long as it stays open.
func streamEvents(req *request) error {
	l := &eventStream{
		request: req, out: http.NewResponseController(req.w),
		changed: make(chan struct{}, 1), sources: map[model.Source]context.CancelFunc{},
	}
	if !req.streams.acquire(req.identity.User.Name) {
		return &problem{
			Status: http.StatusTooManyRequests, Title: "Too many pages",
			Text: fmt.Sprintf("You have %d live pages open.", maxStreams), Hint: "Close some of them.",
		}
	}
	defer req.streams.release(req.identity.User.Name)
	if err := setReadDeadline(req.w, time.Time{}); err != nil {
		return err
	}
	req.w.Header().Set("Content-Type", "text/event-stream")
	// Proxies are not to gather what is to arrive now.
	req.w.Header().Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithCancel(req.context())
	defer cancel()
	if watched := req.query("watch"); watched != "" {
		go req.watchResource(ctx, watched, l.changed)
	}
	notify(l.changed) // Nobody knows what happened since the page was made.
	l.watchSources(ctx)
	l.run(ctx)
	return nil
}

// run writes events until the page is closed, or the session ends.
func (l *eventStream) run(ctx context.Context) {
	pulse, look, rest := time.NewTicker(keepaliveInterval), time.NewTicker(pollInterval), time.NewTimer(minRefreshInterval)
	defer pulse.Stop()
	defer look.Stop()
	defer rest.Stop()
	// Of changes the page hears once it has rested: at first of all that are found at
	// once, as one.
	var changes <-chan struct{}
	open := l.send(": open\n\n") && l.checkAPIServer(ctx)
	for open {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			open = l.poll(ctx)
		case <-pulse.C:
			open = l.keepalive()
		case <-rest.C:
			left := l.throttle.interval(l.identity.User.Name, l.query("page")) - time.Since(l.lastChange)
			if left <= 0 {
				changes = l.changed
				continue
			}
			rest.Reset(min(left, pollInterval)) // It may take longer than was thought.
		case <-changes:
			open = l.send("event: change\ndata:\n\n")
			changes, l.lastChange = nil, time.Now()
			rest.Reset(minRefreshInterval)
		}
	}
}

// poll finds out whether processes have come or gone, whether what is shown has become
// old, and whether the API server answers.
func (l *eventStream) poll(ctx context.Context) (open bool) {
	if l.watchSources(ctx) || time.Since(l.lastChange) >= staleAfter {
		notify(l.changed)
	}
	return l.checkAPIServer(ctx)
}

// keepalive tells the page that the connection stands, unless its visitor has to sign in.
func (l *eventStream) keepalive() (open bool) {
	if l.sessionExpired() {
		l.send("event: expired\ndata:\n\n")
		return false
	}
	return l.send(": here\n\n")
}

// sessionExpired says that the visitor has to sign in again. That nobody can say, because the API
// server does not answer, is no end.
func (l *eventStream) sessionExpired() bool {
	_, err := l.authenticator.Authenticate(l.r)
	return errors.Is(err, access.ErrExpired) || errors.Is(err, access.ErrSignedOut)
}

// send writes to the page, and says whether that is still there. A page that does not
// read is not; between two sends there is no deadline, whose end would end an HTTP/2 stream.
func (l *eventStream) send(text string) bool {
	if !l.setWriteDeadline(time.Now().Add(sendTimeout)) {
		return false
	}
	if _, err := fmt.Fprint(l.w, text); err != nil {
		return false
	}
	return l.out.Flush() == nil && l.setWriteDeadline(time.Time{})
}

func (l *eventStream) setWriteDeadline(end time.Time) bool {
	err := l.out.SetWriteDeadline(end)
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// checkAPIServer tells the page when the API server goes, and when it is back.
func (l *eventStream) checkAPIServer(ctx context.Context) (open bool) {
	gone := l.probe.isDown(ctx)
	if gone == l.apiServerDown {
		return true
	}
	l.apiServerDown = gone
	return l.send("event: api\ndata: " + map[bool]string{true: "down", false: "up"}[gone] + "\n\n")
}

// watchSources awaits the changes of the processes that there are now, and says whether these
// are others than before.
func (l *eventStream) watchSources(ctx context.Context) (others bool) {
	present := map[model.Source]bool{}
	for _, source := range l.options.Sources(ctx) {
		present[source] = true
		if l.sources[source] == nil {
			awaiting, stop := context.WithCancel(ctx)
			l.sources[source], others = stop, true
			go watchSource(awaiting, source, l.changed)
		}
	}
	for source, stop := range l.sources {
		if !present[source] {
			stop()
			delete(l.sources, source)
			others = true
		}
	}
	return others
}

// watchResource notes each change of the objects of a kind, or of one of them, as far as the
// visitor may see them, until ctx ends.
func (req *request) watchResource(ctx context.Context, resource string, changed chan<- struct{}) {
	kind, err := req.api.Kind(ctx, resource)
	if err == nil {
		err = req.api.Watch(ctx, kind, req.query("namespace"), req.query("name"), func() { notify(changed) })
	}
	if err != nil && ctx.Err() == nil {
		req.log.Debug("page cannot watch", "resource", resource, "error", err.Error())
	}
}

// watchSource notes each change of a source until ctx ends. The first is what has changed since
// the page was made, if anything has.
func watchSource(ctx context.Context, source model.Source, changed chan<- struct{}) {
	var revision uint64
	for ctx.Err() == nil {
		next, err := source.Await(ctx, revision)
		switch {
		case err != nil:
			if !sleep(ctx, sourceRetryInterval) {
				return
			}
		case next != revision:
			notify(changed)
		}
		revision = next
	}
}

// notify says that there was a change, to who has not heard it yet.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// sleep waits, and says whether there is still a reason to go on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
