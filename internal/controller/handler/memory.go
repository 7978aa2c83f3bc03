package handler

import (
	"cmp"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// memory is what the controller remembers of one object between runs. Losing it loses the
// previous state in requests, and repeats calls whose responses were not written. It belongs
// to the worker that holds the object's key.
type memory struct {
	controller.Memory

	// firstSeen is when the object was first reconciled.
	firstSeen time.Time
	// handlers are those of the program, in its order.
	handlers []*handlerMemory
	// pending are the responses that are not written yet, in order.
	pending []*pendingResponse
	// writeAttempt counts failed writes of the object itself.
	writeAttempt attempt
	// stateRemovals counts how often another client removed the record recently.
	stateRemovals attempt
	// throttle slows down handlers of a flapping object.
	throttle throttle
	// ownVersions are the resource versions of our latest writes, which are no changes.
	ownVersions []uint64
	// conditions means that responses have had conditions.
	conditions bool
	// prunedStatus are the fields of the status that the API server did not store, to be written again at prunedNext; nil
	// for none.
	prunedStatus map[string]any
	prunedNext   time.Time
	// applied are digests of the owned objects after the latest apply. appliedNames says by their short names which of them
	// responses have applied, and which not. Both are for programs with Drift handlers.
	applied      []appliedDigests
	appliedNames map[string]bool
	revisions    revisionHistory
}

// handlerMemory is a handler of one object, with what the controller remembers of it.
type handlerMemory struct {
	*Handler
	progress
	// applicability is nil unless the handler is conditional.
	*applicability

	// watched is the digest of the watched fields, watchedSince since when it is the same.
	watched      string
	watchedSince time.Time
	// matchedSince is when a handler that counts from then was first applicable.
	matchedSince time.Time
	// unwritten is what pending responses of the handler change in the object.
	unwritten unwritten
	// events are the unseen events of the handler.
	events []observedEvent
	// serverDigest handles changes by the API server on write: recorded is the digest in the
	// record, actual that of the stored object.
	serverDigest struct{ recorded, actual string }
	// failed is the latest error of the handler; nil after a success.
	failed *handlerError
	// expressionFailed means that failed is the error of the handler's Expression.
	expressionFailed bool
	// eviction records refused evictions.
	eviction evictionWait
	// storedEntry is the entry that was last seen on the object.
	storedEntry lasthandled.Entry
	// revisionDigest is the digest of the latest state that was stored in a revision, unstorableDigest that of one
	// that could not be.
	revisionDigest, unstorableDigest string
	// daemon is the running daemon; finished means that it has completed, and daemonLost that
	// its process may run it although a call failed. daemonConnection is the latest connection
	// to the process that this handler has seen.
	daemon               *daemonRun
	finished, daemonLost bool
	daemonConnection     uint64
}

// handlerError is the error of a handler. refused are the locations of refused writes, which
// the message may quote.
type handlerError struct {
	reason, message string
	fault           *failure.Fault
	refused         []record.Location
}

// progress is the part of handlerMemory that a call changes.
type progress struct {
	// handled is the object as the handler last handled it; nil if unknown.
	handled *object.Object
	// firstDigest is the digest of the watched fields at first sight. It replaces an entry of
	// a handler that matches changes only.
	firstDigest string
	// attempt counts the failures of the current call.
	attempt attempt
	// editUndone means that an edit was taken back before the first run of this process: see lasthandled.Edition.
	editUndone bool
	// resumed means that the Resume handler needs no call.
	resumed bool
	// lastTick is the time from which the next scheduled call is counted.
	lastTick time.Time
	// lastScheduled is the time for which the latest scheduled call was made.
	lastScheduled time.Time
	// relatedChanged means that a related object has changed since the last settled call, and
	// relatedUnseen that no call has been made since.
	relatedChanged, relatedUnseen bool
	// pendingEntry is the entry that is not stored yet.
	pendingEntry *lasthandled.Entry
	// progressObject is the object of the basis of the progress; nil if unknown.
	progressObject *object.Object
}

// attempt counts the failures of one operation.
type attempt struct {
	reason hook.Reason
	// digest identifies the latest input: another one is called for at once. It is that after the
	// response, and digestBefore that of the call, until the response is written.
	digest, digestBefore string
	// count is the number of failures, since the time of the first. A call before due, which an
	// edit brings forward, is no retry: if it fails, it does not count.
	count int
	since time.Time
	due   time.Time
	// next is the time of the next call, and delays the number of failures of this input.
	next   time.Time
	delays int
	// requeued means that the handler did not fail but requested another call: at next, or
	// when the digest of the whole object differs from that after the run.
	requeued     bool
	objectDigest string
	// immediateRequeues is how often in a row the handler requested an immediate call.
	immediateRequeues int
}

// newHandlers returns the handlers of an object, as its record left them.
func (p *Program) newHandlers(recorded lasthandled.Record, o *object.Object) []*handlerMemory {
	handlers := make([]*handlerMemory, len(p.Handlers))
	for i := range p.Handlers {
		m := &handlerMemory{Handler: &p.Handlers[i]}
		e := recorded[m.Name]
		m.resumed, m.editUndone = e.Digest == "", p.isEditUndone(m.Handler, e.Edition, o)
		if m.Conditional {
			m.applicability = &applicability{}
		}
		if e.Attempts > 0 {
			m.attempt.count, m.attempt.delays, m.attempt.since = e.Attempts, e.Attempts, time.Unix(e.Since, 0)
		}
		if e.InProgress != "" {
			m.watched, m.watchedSince = e.InProgress, time.Unix(e.InProgressSince, 0)
		}
		handlers[i] = m
	}
	return handlers
}

// entry returns the entry of the handler, stored or not yet.
func (m *handlerMemory) entry() lasthandled.Entry {
	if m.pendingEntry != nil {
		return *m.pendingEntry
	}
	return m.storedEntry
}

// seenBy returns what a handler has seen, and what it goes back to if a pending response is dropped.
func (m *memory) seenBy(h *handlerMemory) []*progress {
	seen := []*progress{&h.progress}
	for _, o := range m.pending {
		if o.call.handler == h {
			seen = append(seen, &o.progressBefore)
		}
	}
	return seen
}

// succeed ends the attempt and forgets its error.
func (m *handlerMemory) succeed() { m.attempt, m.failed = attempt{}, nil }

// NewMemory returns an empty memory.
func (c *Controller) NewMemory() controller.Remembered { return new(memory) }

// Drop drops nothing: the memory has all.
func (c *Controller) Drop(queue.Key) {}

// Release stops the daemons.
func (m *memory) Release() {
	for _, h := range m.handlers {
		if h.daemon != nil {
			h.daemon.stop()
		}
	}
}

// Describe adds what the controller knows of an object.
func (c *Controller) Describe(o *object.Object, state *record.ObjectState) {
	state.Waiting = c.waitingFor(o)
	state.Children = c.countOwned(o.UID(), o.Namespace())
}

// Children returns the owned objects, in the order of the kinds.
func (c *Controller) Children(o *object.Object) []record.Child {
	var children []record.Child
	for i, owned := range c.ownedBy(o) {
		for _, one := range owned {
			children = append(children, record.Child{Resource: c.program.Owns[i], Object: one})
		}
	}
	return children
}

// maxEvents bounds the buffered events of one object. Further events are merged.
const maxEvents = 16

// eventBuffer has the events that were not delivered to handlers yet. They are best effort:
// standby replicas do not collect them.
type eventBuffer struct {
	mu     sync.Mutex
	active bool
	byKey  map[queue.Key][]observedEvent
}

// observedEvent is a change of an object with its type.
type observedEvent struct {
	cache.Event

	kind hook.EventType
}

// observed returns an event of a watch. A new list after an interrupted watch yields the differences
// only, so an unknown object has been added.
func observed(e cache.Event) observedEvent {
	switch {
	case e.New == nil:
		return observedEvent{e, hook.EventDeleted}
	case e.Old == nil:
		return observedEvent{e, hook.EventAdded}
	}
	return observedEvent{e, hook.EventModified}
}

func newEventBuffer() *eventBuffer { return &eventBuffer{byKey: map[queue.Key][]observedEvent{}} }

func (n *eventBuffer) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active = true
}

func (n *eventBuffer) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.active = false
	clear(n.byKey)
}

func (n *eventBuffer) add(key queue.Key, e observedEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.active {
		return
	}
	n.byKey[key] = appendEvent(n.byKey[key], e)
}

// take returns the events of an object and removes them.
func (n *eventBuffer) take(key queue.Key) []observedEvent {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.byKey[key]
	delete(n.byKey, key)
	return list
}

// appendEvent adds an event, once. Above the limit it merges the last two, but no deletion.
func appendEvent(list []observedEvent, e observedEvent) []observedEvent {
	if len(list) == 0 || e.New == nil {
		return append(list, e)
	}
	last := &list[len(list)-1]
	switch {
	case last.New == e.New:
	case len(list) >= maxEvents && last.New != nil:
		last.New = e.New
	default:
		return append(list, e)
	}
	return list
}

// mergeEvents merges events into one.
func mergeEvents(list []observedEvent) []observedEvent {
	if len(list) < 2 {
		return list
	}
	first := list[0]
	first.New = list[len(list)-1].New
	return []observedEvent{first}
}

// bufferEvent buffers an event if a handler needs it, or the deletion.
func (c *Controller) bufferEvent(e observedEvent) {
	end := e.New == nil && c.program.handles(hook.ReasonDelete)
	if !end && !c.program.handles(hook.ReasonEvent) {
		return
	}
	c.eventBuffer.add(controller.KeyOf(cmp.Or(e.New, e.Old)), e)
}
