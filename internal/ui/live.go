package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
)

// How often a page is told of changes at most, if it takes no time to make; how often it hears that the connection
// stands, how often it is looked whether processes and the API server are there, after how
// long ages, rates and what is due have moved on while nothing changed, how soon a process that does not answer is asked again, and how long sending may take.
const (
	liveEvery  = 500 * time.Millisecond
	livePulse  = 15 * time.Second
	liveLook   = 2 * time.Second
	liveAges   = 10 * time.Second
	sourceRest = 3 * time.Second
	liveSend   = 10 * time.Second
)

// live tells one page of changes, in server-sent events: "change" says that something
// has changed, which the page asks for itself then; "api" that the API server is "gone"
// or "back"; "expired" that the visitor has to sign in again.
type live struct {
	*visit
	out     *http.ResponseController
	changed chan struct{}
	// followed are the processes whose changes are awaited.
	followed map[inspect.Source]context.CancelFunc
	// gone says that the page knows that the API server does not answer.
	gone bool
	// told is when the page was told of a change last.
	told time.Time
}

// followChanges tells a page of changes for as long as it stays open.
func followChanges(v *visit) error {
	l := &live{
		visit: v, out: http.NewResponseController(v.w),
		changed: make(chan struct{}, 1), followed: map[inspect.Source]context.CancelFunc{},
	}
	if !v.streams.open(v.visitor.User.Name) {
		return &problem{
			Status: http.StatusTooManyRequests, Title: "Too many pages",
			Text: fmt.Sprintf("You have %d pages open that are told of changes.", maxStreams), Hint: "Close some of them.",
		}
	}
	defer v.streams.close(v.visitor.User.Name)
	if err := readUntil(v.w, time.Time{}); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	// Proxies are not to gather what is to arrive now.
	v.w.Header().Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithCancel(v.context())
	defer cancel()
	if watched := v.query("watch"); watched != "" {
		go v.watch(ctx, watched, l.changed)
	}
	note(l.changed) // Nobody knows what happened since the page was made.
	l.follow(ctx)
	l.tell(ctx)
	return nil
}

// tell writes events until the page is closed, or the session ends.
func (l *live) tell(ctx context.Context) {
	pulse, look, rest := time.NewTicker(livePulse), time.NewTicker(liveLook), time.NewTimer(liveEvery)
	defer pulse.Stop()
	defer look.Stop()
	defer rest.Stop()
	// Of changes the page hears once it has rested: at first of all that are found at
	// once, as one.
	var changes <-chan struct{}
	alive := l.send(": open\n\n") && l.lookAtAPI(ctx)
	for alive {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			alive = l.look(ctx)
		case <-pulse.C:
			alive = l.pulse()
		case <-rest.C:
			left := l.paces.rest(l.visitor.User.Name, l.query("page")) - time.Since(l.told)
			if left <= 0 {
				changes = l.changed
				continue
			}
			rest.Reset(min(left, liveLook)) // It may take longer than was thought.
		case <-changes:
			alive = l.send("event: change\ndata:\n\n")
			changes, l.told = nil, time.Now()
			rest.Reset(liveEvery)
		}
	}
}

// look finds out whether processes have come or gone, whether what is shown has become
// old, and whether the API server answers.
func (l *live) look(ctx context.Context) (alive bool) {
	if l.follow(ctx) || time.Since(l.told) >= liveAges {
		note(l.changed)
	}
	return l.lookAtAPI(ctx)
}

// pulse tells the page that the connection stands, unless its visitor has to sign in.
func (l *live) pulse() (alive bool) {
	if l.ended() {
		l.send("event: expired\ndata:\n\n")
		return false
	}
	return l.send(": here\n\n")
}

// ended says that the visitor has to sign in again. That nobody can say, because the API
// server does not answer, is no end.
func (l *live) ended() bool {
	_, err := l.gate.Visitor(l.r)
	return errors.Is(err, access.ErrExpired) || errors.Is(err, access.ErrSignedOut)
}

// send writes to the page, and says whether that is still there. A page that does not
// read is not; between two sends there is no deadline, whose end would end an HTTP/2 stream.
func (l *live) send(text string) bool {
	if !l.writeUntil(time.Now().Add(liveSend)) {
		return false
	}
	if _, err := fmt.Fprint(l.w, text); err != nil {
		return false
	}
	return l.out.Flush() == nil && l.writeUntil(time.Time{})
}

func (l *live) writeUntil(end time.Time) bool {
	err := l.out.SetWriteDeadline(end)
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// lookAtAPI tells the page when the API server goes, and when it is back.
func (l *live) lookAtAPI(ctx context.Context) (alive bool) {
	gone := l.probe.gone(ctx)
	if gone == l.gone {
		return true
	}
	l.gone = gone
	return l.send("event: api\ndata: " + map[bool]string{true: "gone", false: "back"}[gone] + "\n\n")
}

// follow awaits the changes of the processes that there are now, and says whether these
// are others than before.
func (l *live) follow(ctx context.Context) (others bool) {
	present := map[inspect.Source]bool{}
	for _, source := range l.options.Sources(ctx) {
		present[source] = true
		if l.followed[source] == nil {
			awaiting, stop := context.WithCancel(ctx)
			l.followed[source], others = stop, true
			go await(awaiting, source, l.changed)
		}
	}
	for source, stop := range l.followed {
		if !present[source] {
			stop()
			delete(l.followed, source)
			others = true
		}
	}
	return others
}

// watch notes each change of the objects of a kind, or of one of them, as far as the
// visitor may see them, until ctx ends.
func (v *visit) watch(ctx context.Context, resource string, changed chan<- struct{}) {
	kind, err := v.api.Kind(ctx, resource)
	if err == nil {
		err = v.api.Watch(ctx, kind, v.query("namespace"), v.query("name"), func() { note(changed) })
	}
	if err != nil && ctx.Err() == nil {
		v.log.Debug("a page is not told of changes", "resource", resource, "error", err.Error())
	}
}

// await notes each change of a source until ctx ends. The first is what has changed since
// the page was made, if anything has.
func await(ctx context.Context, source inspect.Source, changed chan<- struct{}) {
	var revision uint64
	for ctx.Err() == nil {
		next, err := source.Await(ctx, revision)
		switch {
		case err != nil:
			if !pause(ctx, sourceRest) {
				return
			}
		case next != revision:
			note(changed)
		}
		revision = next
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
