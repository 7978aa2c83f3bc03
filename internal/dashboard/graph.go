package dashboard

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Limits of the graph: the objects that are listed, those of a kind and state that are drawn one by
// one, the boxes, and the related objects and field managers.
const (
	maxGraphObjects = 5000
	maxGraphAlike   = 5
	maxGraphBoxes   = 80
	maxGraphRelated = 8
	maxGraphWriters = 3
)

// graphPage is the data of the page of what an object owns.
type graphPage struct {
	*pageObject
	Graph *graphLayout
	// Owned are all owned objects; Kinds are theirs, and Kind is the one to filter by.
	Owned *list[ownedRow]
	Kinds []kindOption
	// Warnings say why the page is incomplete.
	Warnings []string
}

// ownedRow is an owned object in a list.
type ownedRow struct {
	*ownertree.Node
	Owner object.Ref
}

// State is the state by a Setpoint controller or the health: the more severe one.
func (r ownedRow) State() string { return nodeState(r.Node) }

func ownedSpec() *listSpec[ownedRow] {
	return &listSpec[ownedRow]{
		Target: "graph", One: "object", More: "objects", Label: "States", Default: "state", States: ownedStates(),
		State: func(r *ownedRow) string { return r.State() },
		Texts: func(r *ownedRow) []string { return []string{r.Name, r.Namespace} },
		Columns: []listColumn[ownedRow]{
			{Name: "Object", Sort: "name", Compare: func(a, b *ownedRow) int {
				return cmp.Or(strings.Compare(a.Kind.Kind, b.Kind.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
			}},
			{Name: "State", Sort: "state", Compare: func(a, b *ownedRow) int {
				return compareSeverity(a.State(), b.State())
			}},
			{Name: "Owner", Sort: "owner", Compare: compareText(func(r *ownedRow) string { return r.Owner.Kind.Kind + "/" + r.Owner.Name })},
			{Name: "Age", Sort: "created", Compare: compareLatest(func(r *ownedRow) time.Time { return r.Created })},
		},
	}
}

func showGraph(req *request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	if s.Deleted {
		return notFound("%s %s is deleted, and owns nothing.", s.Kind.Kind, s.Name)
	}
	p := &graphPage{pageObject: s}
	states, missing := req.objectStates(s.Ref)
	p.Warnings = missing
	root, err := req.ownedTree(p, states)
	if err != nil {
		return err
	}
	root.State = worstLabel(s.stateViews(states, req.managingProcesses(states), nil))
	p.list(req, root)
	g := &graphBuilder{request: req, page: p}
	if p.Graph, err = g.build(root); err != nil {
		return err
	}
	return req.render(page{
		Name: "object_graph", Title: "Graph of " + s.Kind.Kind + " " + s.Name, Section: "resources",
		Watch: s.Resource(), Namespace: s.Namespace, Object: s.Name, Data: p,
	})
}

// ownedTree returns the tree of the object with more objects than its page shows.
func (req *request) ownedTree(p *graphPage, states []model.ObjectState) (*ownertree.Node, error) {
	states, err := req.addSuspendedChildren(p.Ref, states)
	if err != nil {
		p.Warnings = append(p.Warnings, incompleteMessage(err))
	}
	root := &ownertree.Node{Child: model.Child{Ref: p.Ref, Created: p.Meta.CreationTimestamp.Time}}
	if o, err := object.Parse(p.raw); err == nil {
		root.Health, root.Message = model.HealthOf(o)
	}
	b := &ownertree.Builder{
		API: req.api, May: req.canRead, Processes: ownertree.NewProcesses(req.timeouts, req.listControllers),
		Nodes: maxGraphObjects, Queries: maxCalls, Reads: maxReads,
		Order: func(a, b *ownertree.Node) int { return cmp.Compare(severity(a.Health), severity(b.Health)) },
	}
	warnings, err := b.Build(req.context(), root, states)
	for _, why := range warnings {
		p.Warnings = append(p.Warnings, incompleteMessage(why))
	}
	return root, err
}

// list lists all objects of the tree.
func (p *graphPage) list(req *request, root *ownertree.Node) {
	var rows []ownedRow
	var kinds []object.Kind
	var add func(n *ownertree.Node)
	add = func(n *ownertree.Node) {
		for _, child := range n.Children {
			rows = append(rows, ownedRow{child, n.Ref})
			if !slices.ContainsFunc(kinds, func(k object.Kind) bool { return k.GroupKind() == child.GroupKind() }) {
				kinds = append(kinds, child.Kind)
			}
			add(child)
		}
	}
	add(root)
	wanted := req.query("kind")
	kind, group, _ := strings.Cut(wanted, ".")
	p.Kinds = kindOptions(kinds, group, kind)
	known := slices.ContainsFunc(p.Kinds, func(k kindOption) bool { return k.Current })
	if known {
		rows = slices.DeleteFunc(rows, func(r ownedRow) bool { return r.Kind.Kind != kind || r.Group != group })
	}
	p.Owned = newList(req, rows, ownedSpec())
	if !known && wanted != "" {
		p.Owned.ignore("kind", wanted)
	}
}

// graphBox is a box of the graph: an object, several alike, a related object or a field manager.
type graphBox struct {
	// Class is "object", "root", "group", "related", "owner" or "writer".
	Class, Tone string
	// Name is the first line, Kind, State and Note the second. Label is the whole for screen readers,
	// and URL the page; "" for none.
	Kind, Name, State, Note string
	Label, URL              string
	// Edge is what leads to the box: "owns", "reads" or "writes"; the direction of the last two is to the
	// other box.
	Edge     string
	Children []*graphBox
	// ref is the object; nil for others.
	ref *object.Ref
	// X and Y are its corner.
	X, Y int
}

// graphBuilder draws a tree.
type graphBuilder struct {
	*request
	page  *graphPage
	boxes int
	// drawn are the boxes of single objects.
	drawn []*graphBox
}

// build returns the graph: owners and related objects, the object, and what it owns.
func (g *graphBuilder) build(root *ownertree.Node) (*graphLayout, error) {
	box := g.objectBox(root)
	box.Class, box.Edge = "root", ""
	g.addChildren(box, root)
	if err := g.addWriters(box); err != nil {
		return nil, err
	}
	var before []*graphBox
	for _, o := range g.page.owners(g.request) {
		before = append(before, &graphBox{Class: "owner", Tone: "neutral", Edge: "owns", Kind: o.Kind.Kind, Name: o.Name, URL: objectURL(o.Ref), Label: "Owner " + o.Kind.Kind + " " + joinName(o.Namespace, o.Name)})
	}
	related, version := g.lastCall()
	if version != "" {
		box.Note = joinNotes("version "+version, box.Note)
	}
	return layOut(append(before, related...), box), nil
}

// owners returns the owners of the object.
func (p *graphPage) owners(req *request) []owner { return req.owners(p.pageObject) }

func (g *graphBuilder) objectBox(n *ownertree.Node) *graphBox {
	state := nodeState(n)
	box := &graphBox{Class: "object", Edge: "owns", Tone: tone(state), Kind: n.Kind.Kind, Name: n.Name, State: state, URL: objectURL(n.Ref), ref: &n.Ref}
	box.Label = n.Kind.Kind + " " + joinName(n.Namespace, n.Name) + ": " + state
	if detail := cmp.Or(n.Error, n.Message); detail != "" {
		box.Label += ": " + shorten(detail)
	}
	if len(n.Name) > maxNameLength {
		box.URL = ""
	}
	g.boxes++
	g.drawn = append(g.drawn, box)
	return box
}

// alike are the children of one kind and state.
type alike struct {
	kind  object.Kind
	state string
	nodes []*ownertree.Node
}

// addChildren adds the children of a node. Many of a kind and state are one box.
func (g *graphBuilder) addChildren(to *graphBox, n *ownertree.Node) {
	for _, some := range groupAlike(n.Children) {
		if len(some.nodes) > maxGraphAlike || g.boxes+len(some.nodes) > maxGraphBoxes {
			to.Children = append(to.Children, g.groupBox(&some))
			continue
		}
		for _, child := range some.nodes {
			box := g.objectBox(child)
			to.Children = append(to.Children, box)
			g.addChildren(box, child)
		}
	}
	if n.Hidden > 0 {
		to.Children = append(to.Children, &graphBox{Class: "group", Tone: "neutral", Edge: "owns", Name: pluralize(n.Hidden, "object", "objects"), State: "that you cannot get", Label: pluralize(n.Hidden, "object", "objects") + " of kinds that you cannot get"})
	}
	if n.More > 0 {
		to.Children = append(to.Children, &graphBox{Class: "group", Tone: "neutral", Edge: "owns", Name: pluralize(n.More, "more object", "more objects"), State: "not read", Label: pluralize(n.More, "more object is", "more objects are") + " not read"})
	}
}

// groupAlike groups nodes by kind and state, in their order.
func groupAlike(nodes []*ownertree.Node) (groups []alike) {
	for _, n := range nodes {
		state := nodeState(n)
		at := slices.IndexFunc(groups, func(a alike) bool { return a.kind.GroupKind() == n.GroupKind() && a.state == state })
		if at < 0 {
			at, groups = len(groups), append(groups, alike{kind: n.Kind, state: state})
		}
		groups[at].nodes = append(groups[at].nodes, n)
	}
	return groups
}

// groupBox is the box of several objects. It leads to their list.
func (g *graphBuilder) groupBox(of *alike) *graphBox {
	g.boxes++
	count := formatCount(len(of.nodes))
	query := url.Values{"kind": {kindValue(of.kind.Group, of.kind.Kind)}, "state": {of.state}}
	return &graphBox{
		Class: "group", Edge: "owns", Tone: tone(of.state), Name: count + " × " + of.kind.Kind, State: of.state,
		URL: g.page.URL("graph") + "?" + query.Encode() + "#owned", Label: count + " " + of.kind.Kind + ": " + of.state + ", list them",
	}
}

// addWriters adds the revision of each drawn object, and the field managers that write it and are
// not its owner. The metadata is read as the user.
func (g *graphBuilder) addWriters(root *graphBox) error {
	all := make([]metav1.ObjectMeta, len(g.drawn))
	inParallel(len(g.drawn), maxParallelReviews, func(i int) {
		box := g.drawn[i]
		if box == root {
			all[i] = g.page.Meta
			return
		}
		if box.ref.Plural != "" {
			all[i], _ = g.api.Metadata(g.context(), box.ref.Kind, box.ref.Namespace, box.ref.Name) // Without it, no writers are known.
		}
	})
	for i, box := range g.drawn {
		box.Note = joinNotes(revisionOf(&all[i]), box.Note)
		if box.Note != "" {
			box.Label += ", " + box.Note
		}
		for _, writer := range otherWriters(&all[i]) {
			box.Children = append(box.Children, &graphBox{
				Class: "writer", Tone: "neutral", Edge: "writes", Kind: "field manager", Name: writer.name, State: writer.doing,
				Label: "Field manager " + shorten(writer.name) + ", not the owner, " + writer.doing + " " + box.Kind + " " + box.Name,
			})
		}
	}
	return g.context().Err()
}

// joinNotes joins the notes that are not empty.
func joinNotes(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), ", ")
}

// Where Kubernetes stores the revisions of workloads.
const (
	deploymentRevision = "deployment.kubernetes.io/revision"
	controllerRevision = "controller-revision-hash"
)

// revisionOf returns the revision of an object as its metadata has it; "" for none.
func revisionOf(meta *metav1.ObjectMeta) string {
	if revision := meta.Annotations[deploymentRevision]; revision != "" {
		return "revision " + shorten(revision)
	}
	if hash := meta.Labels[controllerRevision]; hash != "" {
		return "revision " + shorten(hash)
	}
	return ""
}

// writer is a field manager.
type writer struct{ name, doing string }

// otherWriters returns the field managers of an owned object that did not write its owner
// references, at most maxGraphWriters. Those of the status only are no writers: a status has
// other authors.
func otherWriters(meta *metav1.ObjectMeta) (found []writer) {
	if len(meta.OwnerReferences) == 0 {
		return nil
	}
	owners := map[string]bool{}
	for _, entry := range meta.ManagedFields {
		owners[entry.Manager] = owners[entry.Manager] || entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:ownerReferences"`)
	}
	for _, entry := range meta.ManagedFields {
		known := slices.ContainsFunc(found, func(w writer) bool { return w.name == entry.Manager })
		if entry.Subresource == "status" || owners[entry.Manager] || known || len(found) == maxGraphWriters {
			continue
		}
		doing := "writes"
		if entry.Subresource != "" {
			doing = "writes " + entry.Subresource + " of"
		}
		found = append(found, writer{entry.Manager, doing})
	}
	return found
}

// lastCall returns the related objects in the latest request about the object, and the version of
// the hooks that was called. Admission reviews are no such requests.
func (g *graphBuilder) lastCall() (related []*graphBox, version string) {
	runs, _ := g.fetchRuns(g.page.pageObject, maxRuns)
	loader := &runLoader{request: g.request, runs: map[runKey]model.Run{}}
	for i := range runs {
		call, _ := timeline.MainCall(runs[i].Steps)
		if call == nil || call.Review != nil {
			continue
		}
		full, err := loader.load(runs[i].Process, runs[i].ID)
		if err != nil {
			return nil, call.Version
		}
		if call, _ = timeline.MainCall(full.Steps); call == nil || len(call.Request) == 0 {
			return nil, ""
		}
		return relatedBoxes(call.Request), call.Version
	}
	return nil, ""
}

// relatedBoxes returns the related objects of a request.
func relatedBoxes(request json.RawMessage) (boxes []*graphBox) {
	parts, err := diff.Requests(json.RawMessage("{}"), request)
	if err != nil {
		return nil // Other requests than those of hooks have none.
	}
	more := 0
	for _, part := range parts {
		switch {
		case part.Role != "related":
		case len(boxes) == maxGraphRelated:
			more++
		default:
			boxes = append(boxes, &graphBox{
				Class: "related", Tone: "neutral", Edge: "reads", Kind: part.Object.Kind.Kind, Name: part.Object.Name, State: "related", URL: objectURL(part.Object),
				Label: "Related " + part.Object.Kind.Kind + " " + joinName(part.Object.Namespace, part.Object.Name) + ", which the controller reads",
			})
		}
	}
	if more > 0 {
		boxes = append(boxes, &graphBox{Class: "group", Tone: "neutral", Edge: "reads", Name: formatCount(more) + " more", State: "related", Label: pluralize(more, "more related object", "more related objects")})
	}
	return boxes
}
