// Package state has the states of a system that is explored, and the steps between them.
//
// A state is a few numbers: equal values are stored once, and what is computed of a value is computed once, so that most steps
// are lookups. It neither decides what a controller does nor what an API server stores, nor which states are looked at.
package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// System is what is explored. Controller, Server and Objects are required.
type System struct {
	Controller world.Controller
	Server     *world.Server
	// Environment returns what other controllers may do next; nil for nothing. It is safe for concurrent use.
	Environment func(*apiserver.State) []apiserver.Change
	// Objects are stored at the beginning.
	Objects []*object.Object
	// Edits are those that users may make.
	Edits      []world.Edit
	Invariants []property.Invariant
	// External is what hooks call outside of the cluster, with its initial state; nil for nothing.
	External *loop.External
	// Unreduced explores every interleaving, also those that cannot differ in what they lead to.
	Unreduced bool
	// Apart is set if other objects are explored apart.
	Apart bool
}

// Space has the values of all states of a search.
type Space struct {
	System

	// Most is how many edits, crashes and faults there may be.
	Most         Budget
	names        table[Name]
	bodies       table[body]
	versions     table[Version]
	parsed       sync.Map // versions by their object
	stores       table[Contents]
	views        table[view]
	eventLists   table[events]
	writes       sync.Map // writers by written
	writers      atomic.Uint32
	keyLists     table[keys]
	runs         table[run]
	requests     table[Request]
	processTable table[process]
	effects      table[Effect]
	// Seeds are the names of the objects that users keep.
	Seeds      map[*Name]bool
	invariants property.Set
	// Attempts are those of the edits of users.
	Attempts attempts
	// pairs remembers which invariants break between two contents of the API server.
	pairs sync.Map
	// These count what had to be computed.
	Computed struct{ Steps, Deliveries, Requests atomic.Int64 }
}

// Worker expands states. Each has a process of its own.
type Worker struct {
	*Space

	Process world.Process
	Err     error
}

// State is one state of everything. Equal states have equal numbers.
type State struct {
	Stored  *Contents
	process *process
	Spent   Budget
}

// Budget counts the steps that are limited.
type Budget struct{ Edits, Crashes, Faults uint8 }

// Total is the number of deviations from what would happen by itself.
func (b Budget) Total() int { return int(b.Edits) + int(b.Crashes) + int(b.Faults) }

// Packed is a state as numbers.
type Packed struct {
	Stored, process uint32
	Spent           Budget
}

// Pack returns the state as numbers.
func (s State) Pack() Packed { return Packed{s.Stored.id, s.process.id, s.Spent} }

// Unpack returns the state of its numbers.
func (e *Space) Unpack(p Packed) State {
	return State{Stored: e.stores.at(p.Stored), process: e.processTable.at(p.process), Spent: p.Spent}
}

// New returns the states of a system with at most so many edits, crashes and faults.
func New(system System, most Budget) (*Space, error) {
	e := &Space{System: system, Most: most, Seeds: map[*Name]bool{}, Attempts: attempts{All: make([]attempt, len(system.Edits))}}
	var err error
	if e.invariants, err = property.Compile(system.Invariants); err != nil {
		return nil, err
	}
	for _, o := range system.Objects {
		e.Seeds[e.nameOf(o.Ref())] = true
	}
	for i := range system.Edits {
		e.Seeds[e.nameOf(system.Edits[i].Object)] = true
	}
	// The number zero means that a transition has no effect.
	e.effects.add(nil, func(uint32) *Effect { return &Effect{} })
	return e, nil
}

// Contents returns what is stored, by its number.
func (e *Space) Contents(id uint32) *Contents { return e.stores.at(id) }

// Effect returns what a transition means, by its number.
func (e *Space) Effect(id uint32) *Effect { return e.effects.at(id) }

// Broken returns the invariants on states that do not hold; at rest those on rest.
func (e *Space) Broken(at *Contents, rest bool) []property.Finding {
	return e.invariants.Broken(at.Raw(), rest)
}

// HasSteps reports whether an invariant is about steps.
func (e *Space) HasSteps() bool { return e.invariants.HasSteps() }

// BrokenStep returns the invariants on steps that one breaks.
func (e *Space) BrokenStep(before, after *Contents) []property.Finding {
	return e.invariants.BrokenStep(before.Raw(), after.Raw())
}

// BrokenIn returns the invariants that do not hold in a state.
func (e *Space) BrokenIn(at *Contents) []property.Finding {
	return once(at, &at.broken, func() []property.Finding { return e.Broken(at, false) })
}

// brokenBetween returns the invariants that a step breaks: those on states after it, and those on steps.
func (e *Space) brokenBetween(before, after *Contents) []property.Finding {
	all := e.BrokenIn(after)
	if !e.HasSteps() {
		return all
	}
	pair := [2]uint32{before.id, after.id}
	if known, found := e.pairs.Load(pair); found {
		return slices.Concat(all, known.([]property.Finding))
	}
	more := e.BrokenStep(before, after)
	e.pairs.Store(pair, more)
	return slices.Concat(all, more)
}

// Name identifies an object.
type Name struct {
	ID  uint32
	Ref object.Ref
	// uid is what the UIDs of all objects with the name begin with; nil until one is known.
	uid atomic.Pointer[string]
}

// Version is a version of an object: what an API server stored, a cache has, or an event is about.
type Version struct {
	id     uint32
	Name   *Name
	Object *object.Object
	// Body is the number of everything but the resource version.
	Body uint32
	// number is the resource version. Versions of different objects do not compare.
	number uint64
	// Gone marks the last version of a deleted object.
	Gone bool
	// uids are those of the body.
	uids []string
}

// body is what versions are equal in that differ by their resource version only.
type body struct {
	id uint32
	// uids are those that the object has, among them its own.
	uids []string
}

func compareNames(a, b *Name) int {
	if a == b {
		return 0
	}
	return apiserver.CompareRefs(a.Ref, b.Ref)
}

func (e *Space) nameOf(ref object.Ref) *Name {
	ref = ref.Identity()
	k := key(nil).text(ref.Group).text(ref.Kind.Kind).text(ref.Namespace).text(ref.Name)
	return e.names.add(k, func(id uint32) *Name { return &Name{ID: id, Ref: ref} })
}

// versionOf returns the version of an object. Servers return what they did not change as it was.
func (e *Space) versionOf(o *object.Object, gone bool) *Version {
	if known, found := e.parsed.Load(o); found && !gone {
		return known.(*Version)
	}
	data := o.JSONWithManagedFields()
	// The member is as the API server writes it. If the text is elsewhere too, versions differ that could be equal.
	field := []byte(`"resourceVersion":"` + o.ResourceVersion() + `"`)
	content := e.bodies.add(bytes.Replace(data, field, nil, 1), func(id uint32) *body {
		return &body{id: id, uids: apiserver.UIDsIn(o)}
	})
	n := e.nameOf(o.Ref())
	if n.uid.Load() == nil && len(o.UID()) > apiserver.IncarnationDigits {
		prefix := strings.Clone(o.UID()[:len(o.UID())-apiserver.IncarnationDigits])
		n.uid.Store(&prefix)
	}
	v := e.numbered(&Version{Name: n, Object: o, Body: content.id, number: o.Version(), Gone: gone, uids: content.uids})
	if !gone {
		e.parsed.Store(v.Object, v)
	}
	return v
}

func (e *Space) numbered(v *Version) *Version {
	return e.versions.add(v.key(v.number), func(id uint32) *Version {
		v.id = id
		return v
	})
}

// key identifies the version, with another resource version.
func (v *Version) key(number uint64) key {
	k := key(nil).number(v.Name.ID).number(v.Body).long(number)
	if v.Gone {
		k = append(k, 1)
	}
	return k
}

// renumbered returns a version with another resource version.
func (e *Space) renumbered(v *Version, number uint64) *Version {
	if v.number == number {
		return v
	}
	return e.versions.add(v.key(number), func(id uint32) *Version {
		text := []byte(strconv.Quote(strconv.FormatUint(number, 10)))
		o, err := v.Object.With(text, "metadata", "resourceVersion")
		if err != nil {
			// The object was parsed before, and a version of digits changes nothing else.
			panic("renumber " + v.Name.Ref.String() + ": " + err.Error())
		}
		return &Version{id: id, Name: v.Name, Object: o, Body: v.Body, number: number, Gone: v.Gone, uids: v.uids}
	})
}

// asGone returns a version as the last one.
func (e *Space) asGone(v *Version, number uint64) *Version {
	last := *e.renumbered(v, number)
	last.Gone = true
	return e.numbered(&last)
}

// Entry is a name in what is stored.
type Entry struct {
	Name *Name
	// Version is nil if no object has the name.
	Version               *Version
	incarnations, written uint64
}

// Contents is what the API server stores, and what was computed of it.
type Contents struct {
	id      uint32
	Entries []Entry

	mu sync.Mutex
	// done are the results of requests, by their number.
	done map[uint32]*result
	// moves are nil until they are computed, and so are edits and interference.
	moves, edits, interference *[]move
	// broken are the invariants that do not hold here; nil until they are computed.
	broken *[]property.Finding
}

// view is what a cache has.
type view struct {
	id uint32
	// versions are sorted by name.
	versions []*Version

	mu sync.Mutex
	// delivered is what events queue, and started what a process queues that has just listed this.
	delivered map[delivery][]world.Item
	started   *[]world.Item
}

// delivery is an event for a process that has own writes in its cache, by the number of their events.
type delivery struct {
	version, own uint32
	// writer is set for an own write.
	writer uint32
}

// events are on their way to a cache: sorted by kind, and for each in the order in which they happened.
type events struct {
	id  uint32
	all []event
}

// event is a version that is on its way to a cache.
type event struct {
	*Version

	// writers are set if it is of an own write that the cache already has.
	writers *writers
}

// writers are what a process knows of those who made an own write.
type writers struct {
	id  uint32
	all []any
}

// written is a write by one more writer.
type written struct {
	before *writers
	by     any
}

// keys are what a process has to reconcile, sorted.
type keys struct {
	id    uint32
	items []world.Item
}

// process is the state of a controller's process.
type process struct {
	id uint32
	// view is what events have made; the own writes among the events are not in it.
	view   *view
	events *events
	keys   *keys
	// runs are in flight, sorted by key.
	runs []*run
}

func (e *Space) storedOf(entries []Entry) *Contents {
	k := make(key, 0, 24*len(entries))
	for _, s := range entries {
		k = k.number(s.Name.ID).number(idOf(s.Version)).long(s.incarnations).long(s.written)
	}
	return e.stores.add(k, func(id uint32) *Contents { return &Contents{id: id, Entries: entries} })
}

// idOf returns the number of a version that may be absent.
func idOf(v *Version) uint32 {
	if v == nil {
		return 0
	}
	return v.id + 1
}

func (e *Space) viewOf(versions []*Version) *view {
	k := make(key, 0, 4*len(versions))
	for _, v := range versions {
		k = k.number(v.id)
	}
	return e.views.add(k, func(id uint32) *view { return &view{id: id, versions: versions} })
}

func (e *Space) eventsOf(all []event) *events {
	k := make(key, 0, 8*len(all))
	for _, one := range all {
		writers := uint32(0)
		if one.writers != nil {
			writers = one.writers.id
		}
		k = k.number(one.id).number(writers)
	}
	return e.eventLists.add(k, func(id uint32) *events { return &events{id: id, all: all} })
}

func (e *Space) keysOf(items []world.Item) *keys {
	var k key
	for _, item := range items {
		k = appendItem(k, item)
	}
	return e.keyLists.add(k, func(id uint32) *keys { return &keys{id: id, items: items} })
}

func appendItem(k key, item world.Item) key {
	k = k.text(item.Controller).text(item.Key.Namespace).text(item.Key.Name).long(item.Digest)
	if item.Failed {
		k = append(k, 1)
	}
	return k
}

func (e *Space) processOf(v *view, coming *events, pending *keys, runs []*run) *process {
	k := make(key, 0, 12+4*len(runs)).number(v.id).number(coming.id).number(pending.id)
	for _, r := range runs {
		k = k.number(r.id)
	}
	return e.processTable.add(k, func(id uint32) *process { return &process{id, v, coming, pending, runs} })
}

// find returns where a name is in a sorted list of versions, or belongs.
func find(versions []*Version, n *Name) (int, bool) {
	return slices.BinarySearchFunc(versions, n, func(v *Version, n *Name) int { return compareNames(v.Name, n) })
}

// get returns the version of a name that a cache has; nil if none.
func (v *view) get(n *Name) *Version {
	if i, found := find(v.versions, n); found {
		return v.versions[i]
	}
	return nil
}

func (v *view) objects() []*object.Object {
	all := make([]*object.Object, len(v.versions))
	for i, one := range v.versions {
		all[i] = one.Object
	}
	return all
}

// with returns a cache with another version of an object, or without it if that version is gone.
func (e *Space) with(v *view, changed *Version) *view {
	i, found := find(v.versions, changed.Name)
	after := slices.Clone(v.versions)
	switch {
	case found && changed.Gone:
		after = slices.Delete(after, i, i+1)
	case found:
		after[i] = changed
	case !changed.Gone:
		after = slices.Insert(after, i, changed)
	}
	return e.viewOf(after)
}

// Get returns the entry of a name; an empty one if it is new.
func (s *Contents) Get(n *Name) Entry {
	if i, found := s.find(n); found {
		return s.Entries[i]
	}
	return Entry{Name: n}
}

func (s *Contents) find(n *Name) (int, bool) {
	return slices.BinarySearchFunc(s.Entries, n, func(at Entry, n *Name) int { return compareNames(at.Name, n) })
}

// Raw returns the state for a Server.
func (s *Contents) Raw() *apiserver.State {
	all := make([]apiserver.Entry, len(s.Entries))
	for i, at := range s.Entries {
		all[i] = apiserver.Entry{Ref: at.Name.Ref, Incarnations: at.incarnations, Written: at.written}
		if at.Version != nil {
			all[i].Object = at.Version.Object
		}
	}
	return &apiserver.State{Entries: all}
}

// storedFrom is the reverse of raw.
func (e *Space) storedFrom(raw *apiserver.State) *Contents {
	entries := make([]Entry, len(raw.Entries))
	for i, at := range raw.Entries {
		entries[i] = Entry{Name: e.nameOf(at.Ref), incarnations: at.Incarnations, written: at.Written}
		if at.Object != nil {
			entries[i].Version = e.versionOf(at.Object, false)
		}
	}
	return e.storedOf(entries)
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

// Change is a name whose object changed: after may be the last version.
type Change struct{ Before, After *Version }

// Changes returns how two contents differ. An object that was replaced by another of its name is two differences.
func (e *Space) Changes(before, after *Contents) []Change {
	if before == after {
		return nil
	}
	var all []Change
	for _, now := range after.Entries {
		was := before.Get(now.Name)
		switch {
		case was.Version == now.Version:
		case now.Version == nil:
			all = append(all, Change{was.Version, e.asGone(was.Version, max(now.written, was.Version.number))})
		case was.Version != nil && was.incarnations != now.incarnations:
			all = append(all, Change{was.Version, e.asGone(was.Version, now.Version.number)}, Change{nil, now.Version})
		default:
			all = append(all, Change{was.Version, now.Version})
		}
	}
	for _, was := range before.Entries {
		if _, kept := after.find(was.Name); !kept && was.Version != nil {
			all = append(all, Change{was.Version, e.asGone(was.Version, was.Version.number)})
		}
	}
	return all
}

// run is a reconcile in flight, and what it does next.
type run struct {
	id   uint32
	item world.Item
	view *view
	// before is the run before its last exchange; nil at the beginning.
	before   *run
	exchange loop.Exchange

	mu   sync.Mutex
	step *world.Step
	// request is that of the step; nil if the run ends.
	request *Request
	// fresh reports whether the run knows the newest specs of what users keep, by what is stored.
	fresh map[uint32]bool
}

// Request is a request with its number.
type Request struct {
	id uint32
	loop.Request
}

// result is what a request leads to.
type result struct {
	after    *Contents
	Response loop.Response
}

// move is a change of what is stored that no controller under test makes.
type move struct {
	action action
	after  *Contents
	effect Effect
	// spends is what it takes of the budget.
	spends Budget
}

// attempts remembers what came of the edits of users. It is safe for concurrent use.
type attempts struct {
	mu  sync.Mutex
	All []attempt
}

// attempt is what came of one edit.
type attempt struct {
	Made bool
	// Err is the error of the API server: that with the smallest text, so that it does not depend on the order in which
	// workers try. It is world.ErrUnchanged if the server has refused nothing, and nil if the edit was never tried.
	Err error
}

// add notes the result of an edit.
func (a *attempts) add(edit int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := &a.All[edit]
	switch {
	case err == nil:
		one.Made = true
	case one.Err == nil, errors.Is(one.Err, world.ErrUnchanged), !errors.Is(err, world.ErrUnchanged) && err.Error() < one.Err.Error():
		one.Err = err
	}
}

// once returns what follows from the contents, which is computed once.
func once[T any](at *Contents, known **[]T, compute func() []T) []T {
	at.mu.Lock()
	defer at.mu.Unlock()
	if *known == nil {
		all := compute()
		*known = &all
	}
	return **known
}
