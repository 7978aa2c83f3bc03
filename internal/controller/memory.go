package controller

import (
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Remembered is a memory of a loop: a pointer to a struct that embeds Memory.
type Remembered interface {
	common() *Memory
	// Release ends what a dropped memory has started.
	Release()
}

// Memory is what a controller remembers of an object between runs. A loop embeds it in a
// memory of its own. It belongs to the worker that holds the object's key.
type Memory struct {
	// Result is the result of the latest run.
	Result Result
	// Attempts counts the runs that failed in a row.
	Attempts int
	// Conflicts counts the runs in a row that ended because an object had changed.
	Conflicts int

	uid      string
	conflict Conflict
	reported reported
	// said are the latest messages of events that are sent once, by their reason.
	said map[string]string
	// paused means that an event has said so.
	paused  bool
	lastRun time.Time
	// reconcileAt is the manual reconcile request on the object that the latest run reconciled.
	reconcileAt time.Time
}

// reported is the failure that the latest event is about.
type reported struct {
	message string
	at      time.Time
}

func (m *Memory) common() *Memory { return m }

// Release ends nothing. A loop whose memories start something has its own.
func (m *Memory) Release() {}

// ForgetReported lets the next failure send an event even if the message is the same.
func (m *Memory) ForgetReported() { m.reported = reported{} }

// Result is how a run ended.
type Result struct {
	// HookFailing means that the hook or a handler failed, Unreachable that there was no response at all.
	Failing, HookFailing, Unreachable bool
	// RelatedMissing means that related objects cannot be read.
	RelatedMissing bool
	// Invalid means that the object is no valid parent.
	Invalid bool
	// Children is how many children the object has.
	Children int
	// Message is the error, Reason that of its event.
	Message, Reason string
	Fault           *failure.Fault
	// Since is when the run ended, or the first in a row that failed.
	Since time.Time
	// Locations says where writes were rejected; Message may quote what they wrote.
	Locations []record.Location
}

func (r *Result) forbidden() bool {
	return r.Failing && r.Fault != nil && r.Fault.Kind == failure.Forbidden
}

// Conflict is why an object does not converge; zero if it does.
type Conflict struct {
	Message string
	// Locations are the objects that are written again and again.
	Locations []record.Location
}

// LastError is a failed run.
type LastError struct {
	Message string    `json:"message"`
	Object  string    `json:"object"`
	Time    time.Time `json:"time"`
}

// Memories are the memories of all objects of a controller, and sums over them.
type Memories struct {
	create func() Remembered

	mu    sync.Mutex
	byKey map[queue.Key]Remembered
	// hookFailing is how many objects fail because of the hook.
	hookFailing int
	lastError   LastError
	// lastHookError is the failure of a hook that stands for all objects.
	lastHookError LastError
}

// NewMemories returns no memories yet; create returns one.
func NewMemories(create func() Remembered) *Memories {
	return &Memories{create: create, byKey: map[queue.Key]Remembered{}}
}

// Get returns the memory of an object. It is fresh if the object is new, or another one than that of its name before.
func (m *Memories) Get(key queue.Key, uid string) (memory Remembered, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known != nil && known.common().uid == uid {
		return known, false
	}
	m.drop(key, known)
	memory = m.create()
	memory.common().uid = strings.Clone(uid)
	m.byKey[key] = memory
	return memory, true
}

// Drop drops the memory of an object that was deleted or is not managed any more.
func (m *Memories) Drop(key queue.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(key, m.byKey[key])
}

func (m *Memories) drop(key queue.Key, known Remembered) {
	if known == nil {
		return
	}
	m.setResult(known.common(), Result{}, false)
	known.Release()
	delete(m.byKey, key)
}

// Clear drops all memories without a release.
func (m *Memories) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byKey)
	m.hookFailing = 0
}

// EndRun records when a run ended and whether its object converges.
func (m *Memories) EndRun(of *Run, conflict Conflict, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	conflict.Message = of.Secrets.Text(conflict.Message)
	memory := of.common()
	memory.lastRun, memory.reconcileAt, memory.conflict = now, of.reconcileAt, conflict
}

// SetResult records the result of a run of an object. A failing object only waited in this run if it has not failed again.
func (m *Memories) SetResult(key queue.Key, of Remembered, now Result, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if again {
		m.lastError = LastError{Message: now.Message, Object: key.String(), Time: now.Since}
		if now.HookFailing && (m.hookFailing == 0 || now.Since.Sub(m.lastHookError.Time) > minHookMessageAge) {
			m.lastHookError = m.lastError
		}
	}
	m.setResult(of.common(), now, again)
}

// minHookMessageAge is how long one message stands for the failures of a hook. Each object
// may fail with another one, and a condition must not flap.
const minHookMessageAge = 30 * time.Second

func (m *Memories) setResult(of *Memory, now Result, again bool) {
	previous := of.Result
	m.hookFailing += boolToInt(now.HookFailing) - boolToInt(previous.HookFailing)
	switch {
	case !now.Failing:
		of.Attempts = 0
	case again:
		of.Attempts++
	default:
		now.Message, now.Reason, now.Fault, now.Locations = previous.Message, previous.Reason, previous.Fault, previous.Locations
	}
	if now.Failing && previous.Failing {
		now.Since = previous.Since
	}
	of.Result = now
}

// SetPaused records whether an event has said that an object is paused. It reports whether that is new.
func (m *Memories) SetPaused(of *Memory, paused bool) bool {
	if of.paused == paused {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of.paused = paused
	return true
}

// Keys are the objects whose latest result matches.
func (m *Memories) Keys(matches func(Result) bool) []queue.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []queue.Key
	for key, known := range m.byKey {
		if matches(known.common().Result) {
			keys = append(keys, key)
		}
	}
	return keys
}

// UIDs are the UIDs of all objects.
func (m *Memories) UIDs() map[queue.Key]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[queue.Key]string, len(m.byKey))
	for key, known := range m.byKey {
		all[key] = known.common().uid
	}
	return all
}

// Len is the number of objects.
func (m *Memories) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byKey)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SharedMap is a map for several goroutines. The zero value is empty.
type SharedMap[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// Get returns the value of a key; zero if there is none.
func (m *SharedMap[K, V]) Get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// Take removes and returns the value of a key.
func (m *SharedMap[K, V]) Take(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.values[key]
	delete(m.values, key)
	return taken
}

// Edit calls a function with the map, which only that function may use.
func (m *SharedMap[K, V]) Edit(edit func(values map[K]V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[K]V{}
	}
	edit(m.values)
}
