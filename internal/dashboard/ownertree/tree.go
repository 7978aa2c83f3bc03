// Package ownertree builds the tree of objects that an object owns: children of Setpoint
// controllers, as their processes report them, and dependents by owner references.
//
// It holds the tree and its limits, but not how it is shown. It reads with the permissions
// of the user, and counts what the user may not read.
package ownertree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Node is an object with the objects it owns.
type Node struct {
	inspect.Child
	// State and Error are those of the most severe state under Controllers.
	State       inspect.State `json:"state,omitempty"`
	Error       string        `json:"error,omitempty"`
	Controllers []string      `json:"controllers,omitempty"`
	Children    []*Node       `json:"children,omitempty"`
	// Hidden is the number of children the user may not read, More the number of children
	// beyond the limit. Both are missing in Children.
	Hidden int `json:"hidden,omitempty"`
	More   int `json:"more,omitempty"`
}

// Builder builds trees for one user. It is not safe for concurrent use.
type Builder struct {
	// API reads with the user's permissions.
	API *userclient.Client
	// Processes report the children of Setpoint controllers.
	Processes *Processes
	// May reports whether the user may get objects of a kind in a namespace. The plural of the kind may be empty.
	May func(kind object.Kind, namespace string) bool
	// Kinds are more kinds of objects that the root may own.
	Kinds []object.Kind
	// Order sorts children; by kind and name if nil.
	Order func(a, b *Node) int
	// Nodes limits the nodes, Queries the queries to processes, and Reads the objects read for their health.
	Nodes, Queries, Reads int
}

// maxDepth limits the depth of a tree.
const maxDepth = 8

type treeBuild struct {
	*Builder
	dependents *OwnerIndex
	// seen are the objects in the tree; owner references may be cyclic.
	seen  map[object.Ref]bool
	nodes int
	// queried is the number of objects queried, skipped of those beyond the limit.
	queried, skipped int
	// unread is the number of objects without health because of the limit.
	unread int
}

// Build adds the owned objects to root, whose states are known. missing explains what the tree may lack.
func (g *Builder) Build(ctx context.Context, root *Node, states []inspect.ObjectState) (missing []error, err error) {
	t := &treeBuild{Builder: g, dependents: NewOwnerIndex(g.API, g.Reads), seen: map[object.Ref]bool{root.Identity(): true}}
	t.addChildren(root, states)
	level := []*Node{root}
	for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
		if depth > 0 {
			if err := t.query(ctx, level); err != nil {
				return nil, err
			}
		}
		t.addDependents(ctx, level)
		level = t.limit(level)
	}
	return t.missing(), ctx.Err()
}

// query reads the states of the nodes of a level, in parallel.
func (t *treeBuild) query(ctx context.Context, level []*Node) error {
	queried := t.toQuery(level)
	states := make([][]inspect.ObjectState, len(queried))
	userclient.InParallel(len(queried), func(i int) { states[i] = t.Processes.states(ctx, queried[i].Ref) })
	for i, n := range queried {
		for j := range states[i] {
			states[i][j] = inspect.RedactState(states[i][j], t.May)
		}
		t.addChildren(n, states[i])
	}
	return ctx.Err()
}

// toQuery returns the nodes that a controller may manage, up to the limit.
func (t *treeBuild) toQuery(level []*Node) (found []*Node) {
	for _, n := range level {
		switch {
		case len(t.Processes.managing(n.Kind)) == 0:
		case t.queried == t.Queries:
			t.skipped++
		default:
			t.queried++
			found = append(found, n)
		}
	}
	return found
}

func (t *treeBuild) addChildren(n *Node, states []inspect.ObjectState) {
	for i := range states {
		c := &states[i]
		if !slices.Contains(n.Controllers, c.Controller) { // Every replica reports it.
			n.Controllers = append(n.Controllers, c.Controller)
		}
		if severity(c.State) > severity(n.State) {
			n.State, n.Error = c.State, cmp.Or(c.Error, c.Conflict)
		}
		for _, child := range c.ChildStates {
			switch {
			case !t.markSeen(child.Ref):
			case t.May(child.Kind, child.Namespace):
				n.Children = append(n.Children, &Node{Child: child})
			default:
				n.Hidden++
			}
		}
	}
}

// severity orders states: none, unknown, then known ones by severity.
func severity(s inspect.State) int {
	switch at := slices.Index(inspect.States(), s); {
	case s == inspect.StateUnknown:
		return 1
	case at < 0:
		return 0
	default:
		return 1 + len(inspect.States()) - at
	}
}

// markSeen reports whether an object is new, and adds it to seen.
func (t *treeBuild) markSeen(ref object.Ref) bool {
	was := t.seen[ref.Identity()]
	t.seen[ref.Identity()] = true
	return !was
}

// addDependents adds the objects owned by the nodes of a level by owner reference.
func (t *treeBuild) addDependents(ctx context.Context, level []*Node) {
	var all []*Node
	for _, n := range level {
		if n.UID == "" {
			continue
		}
		kinds := t.Processes.revisionKinds(n.Kind)
		if t.nodes == 0 {
			kinds = append(kinds, t.Kinds...) // It is the root.
		}
		found := lists.Filter(t.dependents.Children(ctx, n.Ref, kinds...), func(d *Node) bool { return t.markSeen(d.Ref) })
		n.Children, all = append(n.Children, found...), append(all, found...)
	}
	t.unread += t.dependents.Read(ctx, all)
}

// limit sorts the children of a level, removes those beyond the limit, and returns the next level.
func (t *treeBuild) limit(level []*Node) (next []*Node) {
	for _, n := range level {
		slices.SortStableFunc(n.Children, func(a, b *Node) int {
			by := 0
			if t.Order != nil {
				by = t.Order(a, b)
			}
			return cmp.Or(by, cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		if remaining := t.Nodes - t.nodes; len(n.Children) > remaining {
			n.Children, n.More = n.Children[:remaining], len(n.Children)-remaining
		}
		t.nodes += len(n.Children)
		next = append(next, n.Children...)
	}
	return next
}

func (t *treeBuild) missing() (all []error) {
	all = append(all, lists.Map(t.dependents.ListErrors, func(u *ListError) error { return u })...)
	all = append(all, t.Processes.errors()...)
	if t.skipped > 0 {
		all = append(all, fmt.Errorf("children of %d more objects are not shown: too many objects", t.skipped))
	}
	if t.unread > 0 {
		all = append(all, errors.New("the health of some objects is not shown: too many objects"))
	}
	return all
}

// Processes are the processes to query for one tree. A process that fails is not queried
// again, so that one that hangs delays a tree only once.
type Processes struct {
	timeouts *inspect.Timeouts
	// controllers returns the controllers of each process. It is called at most once.
	controllers func() []inspect.Result[[]inspect.Controller]

	mu     sync.Mutex
	failed map[inspect.Source]error
}

// NewProcesses returns the processes with the given controllers.
func NewProcesses(patience *inspect.Timeouts, controllers func() []inspect.Result[[]inspect.Controller]) *Processes {
	return &Processes{timeouts: patience, controllers: sync.OnceValue(controllers), failed: map[inspect.Source]error{}}
}

// managing returns the processes that manage a kind and have not failed.
func (p *Processes) managing(kind object.Kind) (found []inspect.Source) {
	results := p.controllers()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range results {
		if a.Err != nil {
			p.failed[a.Source] = a.Err
		}
		manages := func(c inspect.Controller) bool { return c.Manages(kind) }
		if p.failed[a.Source] == nil && slices.ContainsFunc(a.Value, manages) {
			found = append(found, a.Source)
		}
	}
	return found
}

// revisionKinds returns the kinds of history objects that controllers of a kind create.
func (p *Processes) revisionKinds(kind object.Kind) (kinds []object.Kind) {
	for _, a := range p.controllers() {
		for _, c := range a.Value {
			if c.Manages(kind) {
				kinds = append(kinds, c.RevisionKinds...)
			}
		}
	}
	return kinds
}

func (p *Processes) states(ctx context.Context, ref object.Ref) (states []inspect.ObjectState) {
	call := func(ctx context.Context, s inspect.Source) ([]inspect.ObjectState, error) { return s.States(ctx, ref) }
	for _, a := range inspect.QueryAll(ctx, p.timeouts, p.managing(ref.Kind), call) {
		if a.Err != nil && !errors.Is(a.Err, failure.ErrNotFound) && ctx.Err() == nil {
			p.mu.Lock()
			p.failed[a.Source] = a.Err
			p.mu.Unlock()
		}
		states = append(states, a.Value...)
	}
	return states
}

// errors returns the errors of the excluded processes.
func (p *Processes) errors() (all []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, why := range p.failed {
		if !errors.Is(why, context.DeadlineExceeded) { // A timeout names the process.
			why = fmt.Errorf("the process %s is unavailable: %w", s.Name(), why)
		}
		all = append(all, why)
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}

// OwnerIndex finds owned objects by their owner references. It lists each kind once per
// namespace. It is for one goroutine.
type OwnerIndex struct {
	api     *userclient.Client
	listed  map[listScope]bool
	byOwner map[string][]*Node
	// ListErrors are the failed lists.
	ListErrors []*ListError
	// reads is how many objects may still be read in full.
	reads int
}

type listScope struct {
	object.Kind
	namespace string
}

// ListError is a failed list.
type ListError struct {
	object.Kind
	Namespace string
	error
}

// Unwrap returns the error of the request.
func (u *ListError) Unwrap() error { return u.error }

// NewOwnerIndex returns an OwnerIndex that reads at most so many objects in full.
func NewOwnerIndex(api *userclient.Client, reads int) *OwnerIndex {
	return &OwnerIndex{api: api, listed: map[listScope]bool{}, byOwner: map[string][]*Node{}, reads: reads}
}

// BuiltinChildKinds returns the kinds that the controllers of Kubernetes create for a kind.
func BuiltinChildKinds(kind object.Kind) []object.Kind {
	switch kind.Kind + "." + kind.Group {
	case "Deployment.apps":
		return []object.Kind{{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true}}
	case "CronJob.batch":
		return []object.Kind{{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job", Namespaced: true}}
	case "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController.":
		return []object.Kind{podKind}
	}
	return nil
}

var podKind = object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}

// Children returns the owned objects of the builtin child kinds and of more kinds.
func (f *OwnerIndex) Children(ctx context.Context, owner object.Ref, more ...object.Kind) []*Node {
	for _, kind := range append(BuiltinChildKinds(owner.Kind), more...) {
		f.list(ctx, kind, owner.Namespace)
	}
	return f.byOwner[owner.UID]
}

// list lists a kind once in a namespace, or in all. Namespaced objects own nothing outside of their namespace.
func (f *OwnerIndex) list(ctx context.Context, kind object.Kind, namespace string) {
	at := listScope{kind, namespace}
	if f.listed[at] || namespace != "" && !kind.Namespaced {
		return
	}
	f.listed[at] = true
	err := f.api.EachMetadata(ctx, kind, namespace, "", func(o *metav1.PartialObjectMetadata) { f.add(kind, o) })
	if err != nil {
		f.ListErrors = append(f.ListErrors, &ListError{kind, namespace, err})
	}
}

func (f *OwnerIndex) add(kind object.Kind, o *metav1.PartialObjectMetadata) {
	ref := object.Ref{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
	n := &Node{Child: inspect.Child{Ref: ref, Health: inspect.HealthUnknown, Created: o.CreationTimestamp.Time}}
	if o.DeletionTimestamp != nil {
		n.Health = inspect.HealthTerminating
	}
	for i := range o.OwnerReferences {
		by := string(o.OwnerReferences[i].UID)
		f.byOwner[by] = append(f.byOwner[by], n)
	}
}

// Read reads the health of workloads and pods, which depends on their status. Objects that
// cannot be read stay as they are. It returns how many were skipped because of the limit.
func (f *OwnerIndex) Read(ctx context.Context, all []*Node) (left int) {
	wanted := lists.Filter(all, func(n *Node) bool { return len(BuiltinChildKinds(n.Kind)) > 0 || n.Kind == podKind })
	now := wanted[:min(len(wanted), f.reads)]
	f.reads -= len(now)
	userclient.InParallel(len(now), func(i int) {
		data, _ := f.api.Get(ctx, now[i].Kind, now[i].Namespace, now[i].Name)
		if o, err := object.Parse(data); err == nil {
			now[i].Health, now[i].Message = inspect.HealthOf(o)
		}
	})
	return len(wanted) - len(now)
}
