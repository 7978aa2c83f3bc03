package explore

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// group is objects of users that are explored apart from others, with their edits.
type group struct {
	objects []*object.Object
	edits   []Edit
}

func (g *group) String() string {
	var names []string
	for _, o := range g.objects {
		names = append(names, o.Ref().Identity().String())
	}
	for i := range g.edits {
		if g.edits[i].Create != nil {
			names = append(names, g.edits[i].Object.String())
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " and ")
}

// groupsOf returns each object of users as a group, with what is in it if it is a namespace; one group if nothing can be
// explored apart.
func groupsOf(options Options) []group {
	var groups []group
	index, namespaces := map[object.Ref]int{}, namespacesOf(options)
	at := func(ref object.Ref) *group {
		ref = ref.Identity()
		if namespace, is := namespaces[ref.Namespace]; is {
			ref = namespace
		}
		if _, known := index[ref]; !known {
			index[ref] = len(groups)
			groups = append(groups, group{})
		}
		return &groups[index[ref]]
	}
	for _, o := range options.Objects {
		g := at(o.Ref())
		g.objects = append(g.objects, o)
	}
	for _, e := range options.Edits {
		g := at(e.Object)
		g.edits = append(g.edits, e)
	}
	if options.Unreduced || options.Together || len(options.Controllers) > 1 {
		return groups[:min(1, len(groups))]
	}
	return groups
}

// namespacesOf returns the namespaces that users keep.
func namespacesOf(options Options) map[string]object.Ref {
	namespaces := map[string]object.Ref{}
	add := func(ref object.Ref) {
		if ref.GroupKind() == object.Namespaces.GroupKind() {
			namespaces[ref.Name] = ref.Identity()
		}
	}
	for _, o := range options.Objects {
		add(o.Ref())
	}
	for i := range options.Edits {
		add(options.Edits[i].Object)
	}
	return namespaces
}

// merged returns groups with two of them as one.
func merged(groups []group, i, j int) []group {
	joined := slices.Clone(groups)
	joined[i] = group{slices.Concat(groups[i].objects, groups[j].objects), slices.Concat(groups[i].edits, groups[j].edits)}
	return slices.Delete(joined, j, j+1)
}

// options returns those for a group. The invariants of authors speak of all objects.
func (g *group) options(all Options) Options {
	all.Objects, all.Edits, all.Invariants, all.apart = g.objects, g.edits, nil, true
	return all
}

// exploreApart explores groups of objects that have nothing in common each for itself, and merges the reports. A state of
// all objects is then one state of each group, and a step of all is a step of one, or a crash in all. So what holds in
// each group holds in all together, except for the invariants of authors: they are evaluated for all combinations of what
// the groups have stored. Without a report, it says why all has to be explored together.
func exploreApart(ctx context.Context, options Options, groups []group) (report *Report, why string, err error) {
	// A quick look without edits, crashes and faults finds most of what groups have in common.
	bounds, quick := options.Bounds, true
	options.Bounds.Edits, options.Bounds.Crashes, options.Bounds.Faults, options.Bounds.States = 0, 0, 0, firstCheck
	searches := make([]*search, len(groups))
	for len(groups) > 1 {
		if err := searchEach(ctx, options, groups, searches); err != nil {
			return nil, "", err
		}
		i, j, touch := touching(searches)
		switch {
		case touch != "":
			why, groups = touch, merged(groups, i, j)
			searches[i], searches = nil, slices.Delete(searches, j, j+1)
		case quick:
			options.Bounds, quick = bounds, false
			clear(searches)
		default:
			return reportApart(ctx, options, groups, searches)
		}
	}
	return nil, why, nil
}

// searchEach runs the searches that are missing, each with an equal part of the time that is left. Those with fewer edits
// come first, since they leave time to the others.
func searchEach(ctx context.Context, options Options, groups []group, searches []*search) error {
	var missing []int
	for i := range searches {
		if searches[i] == nil {
			missing = append(missing, i)
		}
	}
	slices.SortStableFunc(missing, func(i, j int) int { return len(groups[i].edits) - len(groups[j].edits) })
	deadline, _ := ctx.Deadline()
	for n, i := range missing {
		s, err := newSearch(groups[i].options(options))
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(missing)-n))
		err = s.explore(within)
		cancel()
		if err != nil {
			return err
		}
		searches[i] = s
	}
	return nil
}

// touching returns two groups that are not independent, and why; an empty text if all are.
func touching(searches []*search) (i, j int, why string) {
	footprints := make([]*footprint, len(searches))
	for i, s := range searches {
		footprints[i] = s.footprint()
	}
	for i, one := range footprints {
		for j, other := range footprints[:i] {
			if why := cmp.Or(one.touches(other), other.touches(one)); why != "" {
				return j, i, why
			}
		}
	}
	return 0, 0, ""
}

// reportApart merges the reports of groups, unless their combinations have to be looked at one by one.
func reportApart(ctx context.Context, options Options, groups []group, searches []*search) (report *Report, why string, err error) {
	why, err = brokenTogether(ctx, options, searches)
	if why != "" || err != nil {
		return nil, why, err
	}
	report = searches[0].report()
	for _, s := range searches[1:] {
		report.add(s.report())
	}
	if ctx.Err() != nil {
		report.Cut = cmp.Or(report.Cut, searches[0].limit(ctx))
	} else {
		unrest := slices.ContainsFunc(searches, func(s *search) bool { return s.allNotes().rests == 0 })
		for _, i := range options.Invariants {
			if i.Eventually == "" || !unrest {
				report.Holds = append(report.Holds, Property(i.Name))
			}
		}
	}
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].String()
	}
	report.Notes = append(report.Notes, exploredApart+strings.Join(names, "; ")+".")
	return report, "", nil
}

// exploredApart is how the note about groups begins.
const exploredApart = "Explored apart, because they have nothing in common: "

// add adds the report of other objects.
func (r *Report) add(other *Report) {
	r.addFound(other)
	if other.Cut != "" && r.Cut == "" {
		r.Cut, r.Complete = other.Cut, other.Complete
	}
	r.Holds = slices.DeleteFunc(r.Holds, func(p Property) bool { return !slices.Contains(other.Holds, p) })
	r.Unmade, r.Suggested = append(r.Unmade, other.Unmade...), append(r.Suggested, other.Suggested...)
	for _, note := range other.Notes {
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
}

// addFound adds what another search has counted and found.
func (r *Report) addFound(other *Report) {
	r.States, r.Steps, r.Seconds = r.States+other.States, r.Steps+other.Steps, r.Seconds+other.Seconds
	r.Runs, r.Deliveries, r.Requests = r.Runs+other.Runs, r.Deliveries+other.Deliveries, r.Requests+other.Requests
	for _, v := range other.Violations {
		if !r.violates(v.Property) {
			r.Violations = append(r.Violations, v)
		}
	}
}

// slot is a name in what is stored.
type slot struct {
	name *name
	// version is nil if no object has the name.
	version       *version
	born, written uint64
}

// stored is what the API server stores, and what was computed of it.
type stored struct {
	id    uint32
	slots []slot

	mu sync.Mutex
	// done are the results of requests, by their number.
	done map[uint32]*result
	// moves are nil until they are computed, and so are edits and interference.
	moves, edits, interference *[]move
	// broken are the invariants that do not hold here; nil until they are computed.
	broken *[]finding
}

// view is what a cache has.
type view struct {
	id uint32
	// versions are sorted by name.
	versions []*version

	mu sync.Mutex
	// delivered is what events queue, and started what a process queues that has just listed this.
	delivered map[delivery][]Item
	started   map[int][]Item
}

// delivery is an event for a process that has own writes in its cache, by the number of their events.
type delivery struct {
	process      int
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
	*version

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
	items []Item
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

// processes are those of all controllers.
type processes struct {
	id  uint32
	all []*process
}

func (e *engine) storedOf(slots []slot) *stored {
	k := make(key, 0, 24*len(slots))
	for _, s := range slots {
		k = k.number(s.name.id).number(idOf(s.version)).long(s.born).long(s.written)
	}
	return e.stores.add(k, func(id uint32) *stored { return &stored{id: id, slots: slots} })
}

// idOf returns the number of a version that may be absent.
func idOf(v *version) uint32 {
	if v == nil {
		return 0
	}
	return v.id + 1
}

func keyOfVersions(versions []*version) key {
	k := make(key, 0, 4*len(versions))
	for _, v := range versions {
		k = k.number(v.id)
	}
	return k
}

func (e *engine) viewOf(versions []*version) *view {
	return e.views.add(keyOfVersions(versions), func(id uint32) *view { return &view{id: id, versions: versions} })
}

func (e *engine) eventsOf(all []event) *events {
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

func (e *engine) keysOf(items []Item) *keys {
	var k key
	for _, item := range items {
		k = appendItem(k, item)
	}
	return e.keyLists.add(k, func(id uint32) *keys { return &keys{id: id, items: items} })
}

func appendItem(k key, item Item) key {
	k = k.text(item.Controller).text(item.Key.Namespace).text(item.Key.Name).long(item.Digest)
	if item.Failed {
		k = append(k, 1)
	}
	return k
}

func (e *engine) processOf(v *view, coming *events, pending *keys, runs []*run) *process {
	k := make(key, 0, 12+4*len(runs)).number(v.id).number(coming.id).number(pending.id)
	for _, r := range runs {
		k = k.number(r.id)
	}
	return e.processTable.add(k, func(id uint32) *process { return &process{id, v, coming, pending, runs} })
}

func (e *engine) processesOf(all []*process) *processes {
	k := make(key, 0, 4*len(all))
	for _, p := range all {
		k = k.number(p.id)
	}
	return e.tuples.add(k, func(id uint32) *processes { return &processes{id, all} })
}

// find returns where a name is in a sorted list of versions, or belongs.
func find(versions []*version, n *name) (int, bool) {
	return slices.BinarySearchFunc(versions, n, func(v *version, n *name) int { return compareNames(v.name, n) })
}

// get returns the version of a name that a cache has; nil if none.
func (v *view) get(n *name) *version {
	if i, found := find(v.versions, n); found {
		return v.versions[i]
	}
	return nil
}

// objects returns the objects of a cache.
func (v *view) objects() []*object.Object {
	all := make([]*object.Object, len(v.versions))
	for i, one := range v.versions {
		all[i] = one.object
	}
	return all
}

// with returns a cache with another version of an object, or without it if that version is gone.
func (e *engine) with(v *view, changed *version) *view {
	i, found := find(v.versions, changed.name)
	after := slices.Clone(v.versions)
	switch {
	case found && changed.gone:
		after = slices.Delete(after, i, i+1)
	case found:
		after[i] = changed
	case !changed.gone:
		after = slices.Insert(after, i, changed)
	}
	return e.viewOf(after)
}

// get returns the slot of a name; an empty one if it is new.
func (s *stored) get(n *name) slot {
	if i, found := s.find(n); found {
		return s.slots[i]
	}
	return slot{name: n}
}

func (s *stored) find(n *name) (int, bool) {
	return slices.BinarySearchFunc(s.slots, n, func(at slot, n *name) int { return compareNames(at.name, n) })
}

// raw returns the slots for a Server.
func (s *stored) raw() Stored {
	all := make(Stored, len(s.slots))
	for i, at := range s.slots {
		all[i] = Slot{Ref: at.name.ref, Born: at.born, Written: at.written}
		if at.version != nil {
			all[i].Object = at.version.object
		}
	}
	return all
}

// storedFrom is the reverse of raw.
func (e *engine) storedFrom(raw Stored) *stored {
	slots := make([]slot, len(raw))
	for i, at := range raw {
		slots[i] = slot{name: e.nameOf(at.Ref), born: at.Born, written: at.Written}
		if at.Object != nil {
			slots[i].version = e.versionOf(at.Object, false)
		}
	}
	slices.SortFunc(slots, func(a, b slot) int { return compareNames(a.name, b.name) })
	return e.storedOf(slots)
}

// footprint is what a search of a group of objects has met: what its steps depend on, and what they change.
type footprint struct {
	*search

	// names are the objects that existed, paths those of requests for them.
	names map[object.Ref]bool
	paths map[string]bool
	// uids are what the UIDs of these objects begin with, and mentions the beginnings of all UIDs in them, with one of
	// the objects that have it.
	uids     map[string]bool
	mentions map[string]object.Ref
	// loose are the objects without a controller, and items what was reconciled.
	loose []*object.Object
	items []Item
	// open says why anything else may matter to the group; empty if not.
	open string
}

// footprint returns that of a search that has ended.
func (s *search) footprint() *footprint {
	f := &footprint{search: s, names: map[object.Ref]bool{}, paths: map[string]bool{}, uids: map[string]bool{},
		mentions: map[string]object.Ref{}}
	common := s.commonNames()
	bodies := map[uint32]bool{}
	for _, v := range s.versions.values {
		switch {
		case bodies[v.body]:
			continue
		case common[v.name] && slices.ContainsFunc(s.versions.values, func(other *version) bool {
			return other.name == v.name &&
				other.body != v.body
		}):
			f.open = v.name.ref.String() + " changes"
		case !common[v.name]:
			f.addVersion(v)
		}
		bodies[v.body] = true
	}
	for _, k := range s.keyLists.values {
		f.addItems(k.items)
	}
	for _, r := range s.requests.values {
		if p, _, _ := strings.Cut(r.Target, "?"); r.Method != http.MethodPost && !f.paths[p] && !f.paths[path.Dir(p)] {
			f.open = fmt.Sprintf("%s %s is requested", r.Method, p)
		}
	}
	return f
}

// commonNames are those of objects that the API server has by itself, such as namespaces.
func (s *search) commonNames() map[*name]bool {
	common := map[*name]bool{}
	for _, at := range s.stores.at(s.nodes[0].state.stored).slots {
		common[at.name] = !s.seeds[at.name]
	}
	return common
}

func (f *footprint) addVersion(v *version) {
	f.names[v.name.ref] = true
	f.paths[f.options.Server.Path(v.name.ref)] = true
	if prefix := v.name.uid.Load(); prefix != nil {
		f.uids[*prefix] = true
	}
	for _, uid := range v.uids {
		if len(uid) > birthSize {
			f.mentions[uid[:len(uid)-birthSize]] = v.name.ref
		}
	}
	if !isControlled(v.object) {
		f.loose = append(f.loose, v.object)
	}
}

func (f *footprint) addItems(items []Item) {
	for _, item := range items {
		if !slices.ContainsFunc(f.items, func(known Item) bool { return compareItems(known, item) == 0 }) {
			f.items = append(f.items, item)
		}
	}
}

// touches returns why steps of a group may depend on another one, or change what it depends on; empty if neither. If
// groups do not touch each other, each step of one is the same whatever the state of the others.
func (f *footprint) touches(other *footprint) string {
	if f.open != "" {
		return f.open
	}
	for ref := range f.names {
		if other.names[ref] {
			return ref.String() + " belongs to both"
		}
	}
	for uid, by := range f.mentions {
		if other.uids[uid] {
			return by.String() + " refers to an object of the other"
		}
	}
	for _, item := range f.items {
		for _, o := range other.loose {
			if f.reads(item, o) {
				return fmt.Sprintf("a reconcile of %s for %s may depend on %s", item.Object, item.Controller, o.Ref().Identity())
			}
		}
	}
	return f.shareEnvironment(other)
}

func (f *footprint) reads(item Item, o *object.Object) bool {
	return slices.ContainsFunc(f.workers[0].processes, func(p Process) bool {
		reader, is := p.(Reader)
		return !is || reader.Reads(item, o)
	})
}

// shareEnvironment finds claims that pods of the other group could use: the only kind whose model looks at others.
func (f *footprint) shareEnvironment(other *footprint) string {
	for claim := range f.names {
		for pod := range other.names {
			if claim.Kind.Kind == "PersistentVolumeClaim" && pod.Kind.Kind == "Pod" && claim.Namespace == pod.Namespace {
				return fmt.Sprintf("%s may use %s", pod, claim)
			}
		}
	}
	return ""
}
