package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// state holds the objects of the cluster, and the problems found.
type state struct {
	*soakRun
	all      map[string][]unstructured.Unstructured
	parents  map[string]*unstructured.Unstructured   // by UID
	owned    map[string][]*unstructured.Unstructured // by the owner's UID
	problems []string
	unowned  []*unstructured.Unstructured
}

// check returns all problems, and the unowned children: a user has removed the owner,
// and the parent is gone now.
func (s *soakRun) check(ctx context.Context) (wrong []string, unowned []*unstructured.Unstructured) {
	all, err := s.cluster.all(ctx)
	if err != nil {
		return []string{err.Error()}, nil
	}
	f := &state{soakRun: s, all: all,
		parents: map[string]*unstructured.Unstructured{}, owned: map[string][]*unstructured.Unstructured{}}
	f.sort()
	f.checkRollouts()
	f.checkCamps(ctx)
	for uid, p := range f.parents {
		f.checkParent(p, f.owned[uid])
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	f.checkChildren()
	f.checkBells()
	f.checkParentsExist()
	f.checkCanaries(ctx)
	return f.problems, f.unowned
}

// deleteUnowned deletes unowned children, as the message about them says: parents may
// need their names.
func (s *soakRun) deleteUnowned(ctx context.Context, unowned []*unstructured.Unstructured) {
	for _, o := range unowned {
		err := s.cluster.in(resourceOf("v1", o.GetKind())).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		s.cluster.noteRequest("another client deletes an unowned object", err)
	}
}

func (f *state) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// sort files parents and children.
func (f *state) sort() {
	for _, kind := range kinds() {
		for i := range f.all[kind+"s"] {
			p := &f.all[kind+"s"][i]
			f.parents[string(p.GetUID())] = p
		}
	}
	for _, c := range f.children() {
		if owner := ownerOf(c); owner != nil {
			f.owned[string(owner.UID)] = append(f.owned[string(owner.UID)], c)
		}
	}
}

func (f *state) children() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, resource := range []string{"configmaps", "secrets"} {
		for i := range f.all[resource] {
			all = append(all, &f.all[resource][i])
		}
	}
	return all
}

// checkParent wants a parent to have exactly what its spec says.
func (f *state) checkParent(o *unstructured.Unstructured, children []*unstructured.Unstructured) {
	who := o.GetKind() + " " + o.GetName()
	if o.GetDeletionTimestamp() != nil {
		f.problem("%s is still being deleted, with finalizers %v", who, o.GetFinalizers())
		return
	}
	var p parent
	body, _ := json.Marshal(o.Object) // it was JSON a moment ago
	if err := json.Unmarshal(body, &p); err != nil {
		f.problem("%s: %v", who, err)
		return
	}
	wanted := map[string]string{}
	for _, w := range p.desiredChildren() {
		wanted[w.kind+" "+w.name] = w.value
	}
	if o.GetName() == canary {
		delete(wanted, "ConfigMap "+canary+"-0") // it has another owner
	} else {
		f.checkStatus(who, o, &p)
	}
	f.checkMetadata(who, o, &p)
	for _, c := range children {
		what := c.GetKind() + " " + c.GetName()
		value, isWanted := wanted[what]
		delete(wanted, what)
		got, _, _ := unstructured.NestedString(c.Object, "data", "value")
		switch {
		case !isWanted && hasGeneratedSelector(c) && c.GetLabels()[uidLabel] == "":
			// Its label was removed while there was no leader: it goes with its parent.
		case !isWanted:
			f.problem("%s has %s, which it does not want", who, what)
		case got != value:
			f.problem("%s of %s holds %q, want %q", what, who, got, value)
		case c.GetDeletionTimestamp() != nil:
			f.problem("%s of %s is being deleted", what, who)
		}
	}
	for what := range wanted {
		f.problem("%s lacks %s", who, what)
	}
}

func (f *state) checkStatus(who string, o *unstructured.Unstructured, p *parent) {
	if p.Kind == title(lamp) && !p.lit() {
		return // it keeps the status it had
	}
	if p.Kind == title(bell) {
		f.checkBell(who, p)
		return
	}
	ready, _, _ := unstructured.NestedInt64(o.Object, "status", "ready")
	value, _, _ := unstructured.NestedString(o.Object, "status", "value")
	if int(ready) != len(p.desiredChildren()) || value != p.Spec.Value {
		f.problem("%s has status {ready: %d, value: %q}, want {ready: %d, value: %q}", who, ready, value, len(p.desiredChildren()), p.Spec.Value)
	}
}

// checkMetadata wants finalizers and labels on those who have them for a reason.
func (f *state) checkMetadata(who string, o *unstructured.Unstructured, p *parent) {
	marked := p.Kind == title(shed) || p.Kind == title(bell) || p.Kind == title(tent) || p.Kind == title(lamp) && p.lit()
	if marked != (len(o.GetFinalizers()) == 1) {
		f.problem("%s has finalizers %v", who, o.GetFinalizers())
	}
	glow, glows := o.GetLabels()["glow"]
	if glows != (p.Kind == title(lamp) && p.lit()) || glows && glow != p.Spec.Value {
		f.problem("%s glows: %v, %q", who, glows, glow)
	}
}

// checkChildren wants every child to belong to a parent that is there, and to
// have what others put on it.
func (f *state) checkChildren() {
	for _, c := range f.children() {
		what, uid := c.GetKind()+" "+c.GetName(), string(c.GetUID())
		owner := ownerOf(c)
		_, isCanary := f.cluster.canaries[namespace+"/"+c.GetName()]
		switch {
		case isCanary || c.GetName() == "kube-root-ca.crt":
		case owner != nil && f.parents[string(owner.UID)] == nil:
			f.problem("%s belongs to %s %s, which is gone", what, owner.Kind, owner.Name)
		case owner == nil && !f.ledger.unowned[uid]:
			f.problem("%s has no owner", what)
		case owner == nil && f.isDesired(c):
			f.problem("%s is not taken in again", what)
		case owner == nil:
			f.unowned = append(f.unowned, c)
		}
		if note, noted := f.ledger.notes[uid]; noted && c.GetAnnotations()["note"] != note {
			f.problem("%s has lost its annotation of another client", what)
		}
	}
}

// isDesired says that the parent is there from which a child was taken.
func (f *state) isDesired(c *unstructured.Unstructured) bool {
	if uid := c.GetLabels()[uidLabel]; uid != "" {
		return f.parents[uid] != nil
	}
	for _, p := range f.all[pot+"s"] {
		if p.GetName() == c.GetLabels()[pot] {
			return true
		}
	}
	return false
}

// checkParentsExist wants nothing lost.
func (f *state) checkParentsExist() {
	there := map[string]bool{}
	for _, p := range f.parents {
		there[strings.ToLower(p.GetKind())+"s "+p.GetName()] = true
	}
	for kept := range f.ledger.parents {
		if !there[kept] {
			f.problem("%s is gone without a deletion", kept)
		}
	}
}

// checkCanaries verifies that objects of other owners are unchanged.
func (f *state) checkCanaries(ctx context.Context) {
	for where, version := range f.cluster.canaries {
		space, called, _ := strings.Cut(where, "/")
		o, err := f.cluster.Resource(resourceOf("v1", "ConfigMap")).Namespace(space).Get(ctx, called, metav1.GetOptions{})
		switch {
		case err != nil:
			f.problem("another owner's ConfigMap %s: %v", where, err)
		case o.GetResourceVersion() != version:
			f.problem("another owner's ConfigMap %s was written", where)
		}
	}
}

// checkPanics looks for what no state of the cluster shows.
func (s *soakRun) checkPanics() {
	s.t.Helper()
	for _, r := range s.replicas {
		for _, line := range r.panics() {
			s.t.Errorf("seed %d: %s: %s", s.seed, r.name, line)
		}
	}
}

// expectations is what those who take part remember for the check.
type expectations struct {
	mu sync.Mutex
	// parents are the parents that were created and not deleted.
	parents map[string]bool
	// notes are annotations that users have put on children, by UID.
	notes map[string]string
	// unowned are children whose owner reference a user has removed, by UID: they
	// stay if their parent is deleted before Setpoint adopts them again.
	unowned map[string]bool
	// rung and dismissed are the bells, by UID, of which handlers were called with
	// success: one that was rung does not go before it is dismissed.
	rung, dismissed map[string]bool
}

func (l *expectations) update(how func(*expectations)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how(l)
}

// counters counts what happened, by what it was.
type counters struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *counters) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// report is the report, as Markdown.
func (s *soakRun) report(took time.Duration) string {
	s.tally.mu.Lock()
	defer s.tally.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "Seed %d, faults for %s, %d replicas", s.seed, *faultDuration, len(s.replicas))
	if took > 0 {
		fmt.Fprintf(&out, "; all right %.1f s after the last of them", took.Seconds())
	}
	out.WriteString(".\n\n| what happened | times |\n|---|---:|\n")
	for _, what := range slices.Sorted(maps.Keys(s.tally.counts)) {
		fmt.Fprintf(&out, "| %s | %d |\n", what, s.tally.counts[what])
	}
	return out.String()
}

// firstOf shows the first of many.
func firstOf(all []string) string {
	const shown = 12
	text := strings.Join(all[:min(shown, len(all))], "\n")
	if more := len(all) - shown; more > 0 {
		text += fmt.Sprintf("\n... and %d more", more)
	}
	return text
}
