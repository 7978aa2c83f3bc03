// Package explore searches all interleavings of a controller, its API server, its users and its environment
// within bounds, and reports the properties that do not hold, each with a shortest story.
//
// It contains the states, the steps between them, the search, the properties, the invariants of authors, and the
// stories. It neither decides what a controller does nor what an API server stores: packages below it do, behind
// the interfaces of this file. Everything they compute is remembered by its input, so that most steps are lookups.
package explore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Controller is a process with one or more controllers to explore.
type Controller struct {
	Name string
	// Start returns a process of it. Each worker of a search has its own, and calls it from one goroutine.
	Start func() (Process, error)
}

// Process is what one controller does. All methods are functions of their arguments.
type Process interface {
	// Watches reports whether the controller's watches select an object.
	Watches(o *object.Object) bool
	// Start returns the items that a process queues that has just listed these objects.
	Start(cached []*object.Object) []Item
	// Deliver returns the items that an event queues. Seen are the objects that earlier events have made, own the writes
	// of the process that it already has in its cache though their events are still to come.
	Deliver(seen []*object.Object, own []Event, event Event) []Item
	// Observe returns the items that an own write queues when the cache gets its result.
	Observe(seen []*object.Object, own []Event, wrote Event) []Item
	// Step runs a reconcile from its beginning until its next request to the API server, or to its end.
	Step(run Run) Step
	// Merge returns one item for two of the same key.
	Merge(older, newer Item) Item
}

// Reader is a Process that knows what runs read. Without it, objects are explored together.
type Reader interface {
	// Reads reports whether a run of an item may read an object that is neither its own, nor refers to its UID, nor has
	// a name under which the run writes; or whether an event of the object may queue the item.
	Reads(item Item, o *object.Object) bool
}

// Event is an object as it is now or, if deleted, as it was.
type Event struct {
	Object  *object.Object
	Deleted bool
	// Writer is what the Process needs to know of an own write; it is comparable.
	Writer any
}

// Item is an object to reconcile.
type Item struct {
	Controller string
	Key        queue.Key
	// Object is the identity of the object with the key.
	Object object.Ref
	// Digest identifies what the item makes a run do, besides its controller and key.
	Digest uint64
	// Value is what the Process needs of it.
	Value any
	// Refers is set if the value has objects.
	Refers bool
	// Failed is set for a retry.
	Failed bool
}

// Run is a reconcile that has begun.
type Run struct {
	Item Item
	// Cached is what the cache had when the run began, sorted like Stored.
	Cached []*object.Object
	// Exchanges are its requests so far.
	Exchanges []Exchange
}

// Exchange is a request and its response.
type Exchange struct {
	Request  Request
	Response Response
}

// Request is a request to the API server.
type Request = loop.Request

// Response is the response of the API server.
type Response struct {
	Status int
	Body   []byte
	// Err is the error of a connection.
	Err error
}

// Step is what a run does next.
type Step struct {
	// Request is nil if the run has ended.
	Request *Request
	// Wrote is what the run has put into its cache so far: the results of its own writes.
	Wrote []Event
	// Queued are items that the run has queued.
	Queued []Item
	End    *End
	// Err means that the run cannot go on; it aborts the search.
	Err error
}

// End is how a run ended.
type End struct {
	// Again is the item of the next run, which the run or its failure planned; nil if it planned none.
	Again *Item
	// Err is the error of the run; nil if it succeeded.
	Err error
	// Panicked is set if Err is a panic.
	Panicked bool
}

// Stored is what an API server stores, sorted by group, kind, namespace and name. It is immutable.
type Stored []Slot

// Slot is a name: the object that has it, and what is left of those that had it before.
type Slot struct {
	// Ref is an identity: group, kind, namespace and name.
	Ref object.Ref
	// Object is nil if no object has the name.
	Object *object.Object
	// Born counts the objects that had the name, which makes their UIDs differ.
	Born uint64
	// Written is the last resource version under the name.
	Written uint64
}

// Server is an API server whose state is a value. Its methods are safe for concurrent use.
type Server interface {
	// Do handles a request. Objects that it does not change stay as they are.
	Do(stored Stored, request Request) (Stored, Response)
	// Edit makes a change that another client requests. An edit that changes nothing, or that the server refuses,
	// returns an error.
	Edit(stored Stored, edit Edit) (Stored, error)
	// Path is that of the requests for an object.
	Path(ref object.Ref) string
	// Collect returns what garbage collection and terminating namespaces may lead to next.
	Collect(stored Stored) []Move
}

// Environment is what other controllers do. It is safe for concurrent use.
type Environment interface {
	Moves(stored Stored) []Move
}

// Move is a change that neither users nor the controllers make.
type Move struct {
	// Name says what happens, such as "becomes ready".
	Name   string
	Object object.Ref
	After  Stored
	// Writes are the requests of Manager that make it, for another server.
	Writes  []apiserver.Request
	Manager string
	// Fault marks failures, which have a budget.
	Fault bool
}

// Edit is a change of one object by a user or another client.
type Edit struct {
	Name   string     `json:"name"`
	Object object.Ref `json:"object"`
	// Create is the manifest of an object to create.
	Create *object.Object `json:"-"`
	// Patch is a merge patch.
	Patch map[string]any `json:"patch,omitempty"`
	// Delete deletes the object.
	Delete bool `json:"delete,omitempty"`
	// Generated marks edits that no author has written.
	Generated bool `json:"-"`
}

// name identifies an object.
type name struct {
	id  uint32
	ref object.Ref
	// uid is what the UIDs of all objects with the name begin with; nil until one is known.
	uid atomic.Pointer[string]
}

// version is a version of an object: what an API server stored, a cache has, or an event is about.
type version struct {
	id     uint32
	name   *name
	object *object.Object
	// body is the number of everything but the resource version.
	body uint32
	// number is the resource version. Versions of different objects do not compare.
	number uint64
	// gone marks the last version of a deleted object.
	gone bool
	// uids are those of the body.
	uids []string
}

// body is what versions are equal in that differ by their resource version only.
type body struct {
	id uint32
	// uids are those that the object has, among them its own.
	uids []string
}

func compareNames(a, b *name) int {
	if a == b {
		return 0
	}
	return compareRefs(a.ref, b.ref)
}

func compareRefs(a, b object.Ref) int {
	return cmp.Or(compareKinds(a, b),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func compareKinds(a, b object.Ref) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind.Kind, b.Kind.Kind))
}

func (e *engine) nameOf(ref object.Ref) *name {
	ref = ref.Identity()
	k := key(nil).text(ref.Group).text(ref.Kind.Kind).text(ref.Namespace).text(ref.Name)
	return e.names.add(k, func(id uint32) *name { return &name{id: id, ref: ref} })
}

// versionOf returns the version of an object. Servers return what they did not change as it was.
func (e *engine) versionOf(o *object.Object, gone bool) *version {
	if known, found := e.parsed.Load(o); found && !gone {
		return known.(*version)
	}
	data := o.JSONWithManagedFields()
	// The member is as the API server writes it. If the text is elsewhere too, versions differ that could be equal.
	field := []byte(`"resourceVersion":"` + o.ResourceVersion() + `"`)
	content := e.bodies.add(bytes.Replace(data, field, nil, 1), func(id uint32) *body {
		return &body{id: id, uids: apiserver.NewFingerprint(o).UIDs}
	})
	n := e.nameOf(o.Ref())
	if n.uid.Load() == nil && len(o.UID()) > birthSize {
		prefix := strings.Clone(o.UID()[:len(o.UID())-birthSize])
		n.uid.Store(&prefix)
	}
	v := e.numbered(&version{name: n, object: o, body: content.id, number: o.Version(), gone: gone, uids: content.uids})
	if !gone {
		e.parsed.Store(v.object, v)
	}
	return v
}

func (e *engine) numbered(v *version) *version {
	return e.versions.add(v.key(v.number), func(id uint32) *version {
		v.id = id
		return v
	})
}

// key identifies the version, with another resource version.
func (v *version) key(number uint64) key {
	k := key(nil).number(v.name.id).number(v.body).long(number)
	if v.gone {
		k = append(k, 1)
	}
	return k
}

// renumbered returns a version with another resource version.
func (e *engine) renumbered(v *version, number uint64) *version {
	if v.number == number {
		return v
	}
	return e.versions.add(v.key(number), func(id uint32) *version {
		text := []byte(strconv.Quote(strconv.FormatUint(number, 10)))
		o, err := v.object.With(text, "metadata", "resourceVersion")
		if err != nil {
			// The object was parsed before, and a version of digits changes nothing else.
			panic("renumber " + v.name.ref.String() + ": " + err.Error())
		}
		return &version{id: id, name: v.name, object: o, body: v.body, number: number, gone: v.gone, uids: v.uids}
	})
}

// asGone returns a version as the last one.
func (e *engine) asGone(v *version, number uint64) *version {
	last := *e.renumbered(v, number)
	last.gone = true
	return e.numbered(&last)
}

// enqueue adds items to those that a process has to reconcile, which are sorted and have one item for each key.
func enqueue(with Process, items []Item, more ...Item) []Item {
	if len(more) == 0 {
		return items
	}
	all := slices.Clone(items)
	for _, item := range more {
		i, found := slices.BinarySearchFunc(all, item, compareItems)
		if found {
			failed := all[i].Failed && item.Failed
			all[i] = with.Merge(all[i], item)
			all[i].Failed = failed
			continue
		}
		all = slices.Insert(all, i, item)
	}
	return all
}

func compareItems(a, b Item) int {
	return cmp.Or(strings.Compare(a.Controller, b.Controller), compareKeys(a.Key, b.Key))
}

func compareKeys(a, b queue.Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// refers reports whether an item has objects, such as those of events that handlers have not seen.
func refers(items []Item) bool {
	return slices.ContainsFunc(items, func(item Item) bool { return item.Refers })
}

// table stores equal values once, and numbers them. A state is then a few numbers, and what is computed of a value
// is computed once. It is safe for concurrent use.
type table[T any] struct {
	mu     sync.RWMutex
	ids    map[string]uint32
	values []*T
}

// add returns the value of a key. build makes it, once, with its number.
func (t *table[T]) add(key []byte, build func(id uint32) *T) *T {
	t.mu.RLock()
	id, found := t.ids[string(key)]
	if found {
		value := t.values[id]
		t.mu.RUnlock()
		return value
	}
	t.mu.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, found = t.ids[string(key)]; found {
		return t.values[id]
	}
	if t.ids == nil {
		t.ids = map[string]uint32{}
	}
	id = uint32(len(t.values))
	value := build(id)
	t.ids[string(key)] = id
	t.values = append(t.values, value)
	return value
}

// at returns the value of a number.
func (t *table[T]) at(id uint32) *T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.values[id]
}

// key builds keys of tables.
type key []byte

func (k key) number(n uint32) key { return binary.LittleEndian.AppendUint32(k, n) }

func (k key) long(n uint64) key { return binary.LittleEndian.AppendUint64(k, n) }

// text appends a text with its length, so that two texts in a row are not taken for two others.
func (k key) text(s string) key { return append(k.number(uint32(len(s))), s...) }
