package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// finding is something that does not hold.
type finding struct {
	property Property
	text     string
}

// found is a violation, and the way to it.
type found struct {
	finding

	// nodes are the states on the way.
	nodes []uint32
	// last is the step after the last of them that is wrong in itself; -1 if a state is.
	last int
	// repeats is how many steps at the end go on for ever, other a state to compare with; noParent for none.
	repeats int
	other   uint32
}

// violated records the first violation of each property: within a layer, its way is a shortest one.
func (s *search) violated(f finding, nodes []uint32, last int) *found {
	v := &found{finding: f, nodes: nodes, last: last, other: noParent}
	if !s.violates(f.property) && !slices.Contains(s.options.Unchecked, f.property) {
		s.found = append(s.found, v)
	}
	return v
}

func (s *search) violates(p Property) bool {
	return slices.ContainsFunc(s.found, func(one *found) bool { return one.property == p })
}

// firstCheck is the number of states at which the graph is checked for the first time while it grows, and how many
// states a search looks at, at least, for violations of more properties.
const firstCheck = 20_000

// enoughFound says why a search ends at violations.
const enoughFound = "violations were found, and what follows would have longer stories"

// enough reports whether violations end the search. The layer goes on, for one run to show all that is violated; but
// not for ever.
func (s *search) enough() string {
	if s.options.hasDifferences() {
		return "a hook is not deterministic"
	}
	if len(s.nodes) >= s.nextCheck {
		// An endless way must not hide what is violated on it.
		s.nextCheck = 2 * len(s.nodes)
		s.checkLayer()
	}
	if len(s.found) == 0 {
		return ""
	}
	if s.lastState == 0 {
		s.lastState = len(s.nodes) + max(len(s.nodes), firstCheck)
	}
	if len(s.nodes) >= s.lastState {
		return enoughFound
	}
	return ""
}

// checksHooks reports whether hooks have to respond to equal requests equally.
func (o *Options) checksHooks() bool {
	return o.Memo != nil && !slices.Contains(o.Unchecked, Deterministic)
}

// hasDifferences reports whether a hook was seen to respond in two ways.
func (o *Options) hasDifferences() bool { return o.checksHooks() && len(o.Memo.Differences()) > 0 }

// These bound the calls that are made once more at the end: the time in which they begin, and that in which they end, of
// the same processes and of those that were restarted, and how often they are: a few times also on a slow machine.
const (
	repeating       = time.Second
	lastRepeating   = 10 * time.Second
	restarting      = 5 * time.Second
	lastRestarting  = 30 * time.Second
	minHookRestarts = 3
	maxHookRestarts = 8
)

// repeatCalls finds hooks with a memory. It does so when the time of the search is over, too, but not if it was
// interrupted.
func (o *Options) repeatCalls(ctx context.Context) error {
	if !o.checksHooks() || errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	within, cancel := context.WithTimeout(ctx, lastRepeating)
	defer cancel()
	o.Memo.Repeat(within, repeating)
	return o.restartHooks(ctx)
}

// restartHooks compares responses with those of hooks whose processes have just started.
func (o *Options) restartHooks(ctx context.Context) error {
	if o.Restart == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastRestarting)
	defer cancel()
	for i, end := 0, time.Now().Add(restarting); i < maxHookRestarts && (i < minHookRestarts || time.Now().Before(end)) &&
		len(o.Memo.Differences()) == 0; i++ {
		programs, stop, err := o.Restart(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("start the hooks once more, to compare what they respond: %w", err)
		}
		o.Memo.RepeatRestarted(ctx, i, programs)
		stop()
	}
	return nil
}

// ends are the states of rest, by the final specs of what users keep.
type ends struct {
	first map[string]end
	// plain are objects without what depends on the way, by the number of their body.
	plain map[uint32]map[string]any
}

// end is the first state of rest that was found with some specs.
type end struct {
	node    uint32
	objects map[string]map[string]any
	// seeds are the names of those that users keep.
	seeds []string
}

func newEnds() *ends { return &ends{first: map[string]end{}, plain: map[uint32]map[string]any{}} }

// checkSameEnd compares a state of rest with the first one that has the same specs. After faults, traces of them may
// remain, so only states without are compared.
func (s *search) checkSameEnd(id uint32, at state) {
	if at.spent.faults > 0 {
		return
	}
	var specs strings.Builder
	var seeds []string
	objects := map[string]map[string]any{}
	for _, one := range at.stored.slots {
		if one.version == nil {
			continue
		}
		plain := s.ends.plainOf(one.version)
		objects[one.name.ref.String()] = plain
		if s.seeds[one.name] {
			seeds = append(seeds, one.name.ref.String())
			specs.WriteString(one.name.ref.String() + " " + strconv.FormatUint(uint64(s.intentOf(plain)), 10) + "\n")
		}
	}
	first, known := s.ends.first[specs.String()]
	if !known {
		s.ends.first[specs.String()] = end{id, objects, seeds}
		return
	}
	if text := differenceOf(first.objects, objects); text != "" {
		s.violated(finding{property: SameEnd, text: "with the same specs it also comes to rest otherwise: " +
			text}, s.path(id), -1).other = first.node
	}
}

// intentOf returns the number of what a user edits of an object.
func (s *search) intentOf(plain map[string]any) uint32 {
	intent := map[string]any{}
	for name, value := range plain {
		if name != "status" {
			intent[name] = value
		}
	}
	return s.bodies.add(append([]byte("intent "), encoded(intent)...), func(id uint32) *body { return &body{id: id} }).id
}

// plainOf returns an object without what depends on how it came about: identity, counters and times.
func (e *ends) plainOf(v *version) map[string]any {
	if plain, known := e.plain[v.body]; known {
		return plain
	}
	fields, err := object.Decode(v.object.JSON())
	if err != nil {
		panic("decode " + v.name.ref.String() + ": " + err.Error()) // It was parsed before.
	}
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		delete(metadata, name)
	}
	owners, _ := metadata["ownerReferences"].([]any)
	for _, owner := range owners {
		if owner, is := owner.(map[string]any); is {
			delete(owner, "uid")
		}
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	for name := range annotations {
		if strings.HasPrefix(name, "setpoint.dev/") {
			delete(annotations, name)
		}
	}
	status, _ := fields["status"].(map[string]any)
	delete(status, lasthandled.StatusField)
	if v.object.Kind() == plan.ControllerRevisions.Kind {
		delete(fields, "revision") // It counts the revisions before, which may be gone.
	}
	withoutGenerations(fields)
	e.plain[v.body] = fields
	return fields
}

// withoutGenerations removes all fields observedGeneration.
func withoutGenerations(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "observedGeneration")
		for _, below := range value {
			withoutGenerations(below)
		}
	case []any:
		for _, below := range value {
			withoutGenerations(below)
		}
	}
}

func differenceOf(first, second map[string]map[string]any) string {
	for _, ref := range sortedNames(first, second) {
		a, b := first[ref], second[ref]
		switch {
		case a == nil:
			return ref + " exists here, and did not there"
		case b == nil:
			return ref + " does not exist here, and did there"
		}
		if changed := object.Changes(a, b); len(changed) > 0 {
			return fmt.Sprintf("%s of %s is %s, and was %s there", changed[0].Path, ref, orAbsent(changed[0].To), orAbsent(changed[0].From))
		}
	}
	return ""
}

// maxValue is how much of a value a sentence has.
const maxValue = 40

func orAbsent(value []byte) string {
	switch text := []rune(string(value)); {
	case value == nil:
		return "absent"
	case len(text) > maxValue:
		return string(text[:maxValue]) + "…"
	default:
		return string(text)
	}
}

func sortedNames(first, second map[string]map[string]any) []string {
	var all []string
	for name := range first {
		all = append(all, name)
	}
	for name := range second {
		if _, both := first[name]; !both {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// maxRequests bounds the requests of one reconcile at rest.
const maxRequests = 100

// checkRest checks a state in which nothing changes any more.
func (s *search) checkRest(id uint32) {
	at := s.unpack(s.nodes[id].state)
	report := func(property Property, text string) {
		if text != "" {
			s.violated(finding{property: property, text: text}, s.path(id), -1)
		}
	}
	report(Finalized, s.deletingAtRest(at))
	report(Owned, s.leftOver(at.stored))
	undesired, failure := s.undesired(at)
	report(Desired, undesired)
	if !s.violates(Valid) { // Else a write that is refused for good, or a panic, is the failure.
		report(Reconciled, failure)
	}
	for _, f := range s.broken(at.stored, true) {
		s.violated(f, s.path(id), -1)
	}
	if failure == "" {
		s.checkSameEnd(id, at)
	}
}

// deletingAtRest finds an object that is being deleted for ever, although nothing but finalizers holds it. Namespaces come
// last: what is in them holds them.
func (s *search) deletingAtRest(at state) string {
	var held *name
	for _, one := range at.stored.slots {
		switch {
		case one.version == nil || !one.version.object.Deleting():
		case s.heldByOutage(at, one.name):
			return "" // What holds it may hold its namespace and its owner, too.
		case held == nil || held.ref.GroupKind() == object.Namespaces.GroupKind():
			held = one.name
		}
	}
	if held == nil {
		return ""
	}
	return fmt.Sprintf("%s is being deleted for ever; its finalizers: %s",
		held.ref, strings.Join(at.stored.get(held).version.object.Finalizers(), ", "))
}

// leftOver finds what runs have created and left behind: objects without an owner, though all objects are gone whose
// runs have created them.
func (s *search) leftOver(at *stored) string {
	for _, one := range at.slots {
		creators := s.creators[one.name]
		if one.version == nil || len(creators) == 0 || len(one.version.object.Field("metadata", "ownerReferences")) > 0 {
			continue
		}
		if !slices.ContainsFunc(creators, func(n *name) bool { return at.get(n).version != nil }) {
			return fmt.Sprintf("%s has no owner, and stays though %s is gone", one.name.ref, creators[0].ref)
		}
	}
	return ""
}

// noteCreator notes whose run has created an object.
func (s *search) noteCreator(e *effect) {
	if e.by != nil && !slices.Contains(s.creators[e.name], e.by) {
		s.creators[e.name] = append(s.creators[e.name], e.by)
	}
}

// undesired reconciles everything once more. It returns what would be written, and which run fails.
func (s *search) undesired(at state) (text, fails string) {
	w := s.workers[0]
	for i, p := range at.processes.all {
		for _, item := range w.started(i, p.view) {
			wrote, failure := s.writesAtRest(w, w.begin(i, item, p.view), at.stored)
			if wrote != "" {
				return wrote, ""
			}
			if failure != nil {
				s.notes[s.layer].add(notes{failing: 1, failure: failure.Error()})
				return "", fmt.Sprintf("every reconcile of %s for %s fails: %v", item.Object, item.Controller, failure)
			}
		}
	}
	return "", ""
}

func (s *search) writesAtRest(w *worker, r *run, at *stored) (wrote string, failure error) {
	for range maxRequests {
		step := w.next(r)
		if step.End != nil {
			return "", step.End.Err
		}
		done := w.do(at, r.request)
		if done.after != at {
			return fmt.Sprintf("one more reconcile of %s writes: %s", r.item.Key,
				describeWrite(&r.request.Request, done.response, changes(w.engine, at, done.after))), nil
		}
		r = w.after(r, done.response)
	}
	return "", nil
}

// describeWrite returns such as "create Pod default/web-0": what a request has changed, or else what it requested.
func describeWrite(r *Request, response Response, changed []difference) string {
	if len(changed) == 0 {
		return describeRequest(r, response)
	}
	e := effectOn(changed)
	target, _, _ := strings.Cut(r.Target, "?")
	return map[operation]string{created: "create ", updated: "update ", deleted: "delete "}[e.what] + e.name.ref.String() +
		subresource(target)
}

// describeRequest returns such as "create Pod default/web-0".
func describeRequest(r *Request, response Response) string {
	verb := map[string]string{http.MethodPost: "create", http.MethodDelete: "delete", http.MethodGet: "read"}[r.Method]
	target, _, _ := strings.Cut(r.Target, "?")
	for _, body := range [][]byte{r.Body, response.Body} {
		if o, err := object.Parse(body); err == nil && o.Name() != "" {
			return cmp.Or(verb, "update") + " " + o.Ref().String() + subresource(target)
		}
	}
	return cmp.Or(verb, "update") + " " + target
}

func subresource(target string) string {
	if strings.HasSuffix(target, "/status") {
		return " (status)"
	}
	return ""
}
