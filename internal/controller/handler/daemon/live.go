// Package daemon runs the daemons of handlers: functions of Go, or what another process runs.
//
// A daemon reads its object and writes to it while it runs, outside of the runs of the object. When it starts and stops
// is decided by package handler, its host.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Host is the controller of daemons.
type Host struct {
	Base *controller.Base
	// Request returns a request with an object and what it owns.
	Request func(*trigger.Handler, *object.Object) *hook.HandlerRequest
	// Accept checks what a daemon writes to an object, and returns it in the form to write.
	Accept func(*trigger.Handler, *object.Object, *hook.HandlerResponse) (*hook.HandlerResponse, error)
	// Invoke calls a handler.
	Invoke func(context.Context, *controller.Run, *hook.HandlerRequest, *trigger.Handler) (*hook.HandlerResponse, error)
	// Write writes a response to the object of a run.
	Write func(context.Context, *controller.Run, *trigger.Response) error
	// Calls limits the concurrent calls to start, update and stop daemons of other processes.
	Calls chan struct{}
}

// DefaultStopTimeout is how long a deleted object waits for its daemon to stop, unless the daemon has a StopTimeout.
const DefaultStopTimeout = 30 * time.Second

// StopTimeout returns how long a deleted object waits for the daemon.
func StopTimeout(h *trigger.Handler) time.Duration { return cmp.Or(h.StopTimeout, DefaultStopTimeout) }

// ErrConflict ends a daemon's write that would overwrite another client's change since the daemon last saw the object.
var ErrConflict = errors.New("another client changed the same fields")

var errObjectGone = errors.New("the object is gone")

// Live is the object of a running daemon.
type Live struct {
	host *Host
	ctx  context.Context //nolint:containedctx // Writes end with the daemon's context.
	// hostCtx is that of the controller: Setpoint stops when it ends.
	hostCtx context.Context //nolint:containedctx // Daemons in other processes outlive ctx.
	handler *trigger.Handler
	key     queue.Key
	uid     string
	changed chan struct{}
	// notified receives when the process of the handler named the object.
	notified chan struct{}

	mu sync.Mutex
	// seen is the object as the daemon last saw it.
	seen *object.Object
	// refusedAt are the locations of refused writes.
	refusedAt []record.Location
}

// NewLive returns the object of a daemon that runs until the first context ends. The second one ends with the controller.
func NewLive(ctx, hostCtx context.Context, host *Host, h *trigger.Handler, o *object.Object) *Live {
	return &Live{host: host, ctx: ctx, hostCtx: hostCtx, handler: h, key: controller.KeyOf(o), uid: o.UID(),
		changed:  make(chan struct{}, 1),
		notified: make(chan struct{}, 1), seen: o}
}

// Changed is that of trigger.Live.
func (l *Live) Changed() <-chan struct{} { return l.changed }

// Notify sends on Changed if the object is newer than what the daemon saw.
func (l *Live) Notify(now *object.Object) {
	if seen := l.Seen(); now.Version() > seen.Version() && trigger.Differs(seen, now) {
		wake(l.changed)
	}
}

// Wake says that the process of the handler named the object.
func (l *Live) Wake() { wake(l.notified) }

// wake sends on a channel unless the receiver has not received the last value yet.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Get returns the request for the current object, with what it owns.
func (l *Live) Get() (*hook.HandlerRequest, error) {
	now, err := l.get()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.key, err)
	}
	return l.setSeen(now), nil
}

// Write is that of trigger.Live. It returns ErrConflict if the response sets a field that changed since.
func (l *Live) Write(a *hook.HandlerResponse) (*hook.HandlerRequest, error) {
	if a == nil {
		return l.Get()
	}
	now, err := l.get()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", l.key, err)
	}
	if a, err = l.host.Accept(l.handler, now, a); err != nil {
		return nil, err
	}
	ctx, run := l.host.Base.NewDetachedRun(l.ctx, now, "daemon "+l.handler.Title()+" wrote")
	err = l.write(ctx, run, &trigger.Response{Response: a})
	run.FinishDetached(l.ctx, err)
	l.addRefused(run.Record.Refused())
	if err != nil {
		return nil, err
	}
	return l.setSeen(run.Stored), nil
}

// write retries the write when the object changes meanwhile.
func (l *Live) write(ctx context.Context, run *controller.Run, o *trigger.Response) error {
	for range controller.MaxConflicts {
		now, err := l.get()
		if err != nil {
			return fmt.Errorf("write %s: %w", l.key, err)
		}
		if fields := trigger.ConflictingFields(o.Response, l.Seen(), now, true); len(fields) > 0 {
			return fmt.Errorf("write %s: %w: %s", l.key, ErrConflict, strings.Join(fields, ", "))
		}
		// The stored object may have changes of others, which the daemon has not seen.
		l.Notify(now)
		run.Stored = now
		if err := l.host.Write(ctx, run, o); !errors.Is(err, controller.ErrConflict) {
			return err
		}
		if !controller.Sleep(ctx, controller.ConflictDelay) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("write %s: %w", l.key, controller.ErrTooManyConflicts)
}

// get returns the current object. The cache may not have our latest write yet.
func (l *Live) get() (*object.Object, error) {
	now, seen := l.host.Base.Get(l.key), l.Seen()
	switch {
	case now == nil || now.UID() != l.uid:
		return nil, errObjectGone
	case now.Version() < seen.Version():
		return seen, nil
	}
	return now, nil
}

func (l *Live) setSeen(now *object.Object) *hook.HandlerRequest {
	l.mu.Lock()
	l.seen = now
	l.mu.Unlock()
	return l.host.Request(l.handler, now)
}

// Seen returns the object as the daemon last saw it.
func (l *Live) Seen() *object.Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

func (l *Live) addRefused(at []record.Location) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusedAt = record.AddLocations(l.refusedAt, at...)
}

// Refused returns the locations of refused writes.
func (l *Live) Refused() []record.Location {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refusedAt)
}
