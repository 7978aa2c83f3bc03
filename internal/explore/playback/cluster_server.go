package playback

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// realServer is a real API server as a Server and Environment. It makes one step at a time, and of what is stored it
// reads only what the step changes: what other controllers do comes to the story in its own steps.
type realServer struct {
	ctx     context.Context //nolint:containedctx // A replay ends with it.
	cluster Cluster
	// kinds is the API server in memory, which knows them.
	kinds kindServer
	// step is to be made; nil while the initial objects are stored.
	step *pendingStep
	// pairs are the objects of memory on the cluster.
	pairs *pairs
	// response is the one that the cluster sent last; err is the first error, which ends the replay.
	response loop.Response
	err      error
}

// kindServer is a Server that knows the kinds that it serves.
type kindServer interface {
	world.Server
	Resource(kind object.GroupKind) (object.Resource, bool)
}

// pendingStep is a step that the cluster is to make.
type pendingStep struct {
	counterexample.StoryStep

	// changed are the objects that it changes in memory.
	changed []state.Change
	// writes are the requests that make a step of another controller.
	writes  []apiserver.Request
	manager string
}

// is reports whether a step is the pending one.
func (r *realServer) is(kinds ...world.ActionKind) bool {
	return r.step != nil && slices.Contains(kinds, r.step.Step)
}

// Do implements Server.
func (r *realServer) Do(stored world.Stored, request loop.Request) (world.Stored, loop.Response) {
	raw, err := request.HTTP()
	if err != nil {
		return stored, loop.Response{Err: err}
	}
	r.response = r.send(raw)
	changed := r.changedRefs()
	if o, err := object.Parse(r.response.Body); err == nil && o.Kind() != "Status" && !strings.HasSuffix(o.Kind(), "List") &&
		o.Name() != "" && request.Writes() {
		changed = append(changed, o.Ref().Identity())
	}
	return r.read(stored, changed), r.response
}

// changedRefs are the objects that the pending step changes in memory.
func (r *realServer) changedRefs() []object.Ref {
	refs := make([]object.Ref, 0, len(r.step.changed))
	for _, c := range r.step.changed {
		refs = append(refs, cmp.Or(c.After, c.Before).Name.Ref)
	}
	return refs
}

// send sends a request. An error of the connection ends the replay.
func (r *realServer) send(raw *http.Request) loop.Response {
	response, err := r.cluster.Do(r.ctx, raw) //nolint:bodyclose // NewResponse closes it.
	if err == nil {
		var read loop.Response
		if read, err = loop.NewResponse(response); err == nil {
			return read
		}
	}
	r.err = cmp.Or(r.err, err)
	return loop.Response{Err: err}
}

// write sends a request of another client. It returns what the API server rejects as an error.
func (r *realServer) write(manager string, request apiserver.Request) error {
	request.Body = r.pairs.onCluster(request.Body)
	raw, err := request.HTTP(manager)
	if err != nil {
		return err
	}
	response := r.send(raw)
	if response.Err == nil && response.Code >= http.StatusBadRequest {
		return fmt.Errorf("the API server responds %d: %s", response.Code, phrase.Message(response.Body))
	}
	return response.Err
}

// Edit implements Server.
func (r *realServer) Edit(stored world.Stored, one world.Edit) (world.Stored, error) {
	if r.step != nil && (!r.is(world.MakeEdit, world.Interfere) || r.step.Name != one.Name ||
		r.step.Object.Identity() != one.Object.Identity()) {
		return nil, world.ErrUnchanged
	}
	resource, known := r.kinds.Resource(one.Object.GroupKind())
	if !known {
		return nil, fmt.Errorf("the kind %s is not known", one.Object.Kind.Kind)
	}
	if one.Object.GroupKind() == object.Namespaces.GroupKind() && r.step == nil {
		return r.read(stored, []object.Ref{one.Object.Identity()}), r.err // Begin has made it.
	}
	request, changes := world.RequestOf(resource, stored.Get(one.Object), one)
	if !changes {
		return nil, world.ErrUnchanged
	}
	if err := r.write(world.Editor, request); err != nil {
		return nil, err
	}
	return r.read(stored, []object.Ref{one.Object.Identity()}), r.err
}

// Path implements Server.
func (r *realServer) Path(ref object.Ref) string { return r.kinds.Path(ref) }

// Collect implements Server. It waits until the garbage collector of the cluster has made the step.
func (r *realServer) Collect(stored world.Stored) []world.Move {
	if !r.is(world.Collect) {
		return nil
	}
	deadline := time.Now().Add(collectionTime)
	for {
		after := r.read(stored, r.changedRefs())
		if r.err != nil || len(r.pairs.differences(r.step.changed, after)) == 0 || time.Now().After(deadline) {
			return []world.Move{{Name: r.step.Name, Object: *r.step.Object, After: after}}
		}
		select {
		case <-r.ctx.Done():
			r.err = cmp.Or(r.err, r.ctx.Err())
		case <-time.After(collectionPoll):
		}
	}
}

// How long the garbage collector of a cluster may take for a step, and how often the replay looks.
const (
	collectionTime = 60 * time.Second
	collectionPoll = 50 * time.Millisecond
)

// Moves implements Environment. It writes what kubelets and other controllers would.
func (r *realServer) Moves(stored world.Stored) []world.Move {
	if !r.is(world.Proceed) {
		return nil
	}
	for _, request := range r.step.writes {
		if err := r.write(r.step.manager, request); err != nil {
			r.err = cmp.Or(r.err, err)
			return nil
		}
	}
	return []world.Move{{Name: r.step.Name, Object: *r.step.Object, After: r.read(stored, r.changedRefs())}}
}

// read returns what is stored with some objects as they are now.
func (r *realServer) read(stored world.Stored, refs []object.Ref) world.Stored {
	after := slices.Clone(stored)
	for _, ref := range refs {
		now, err := r.readOne(ref)
		if err != nil {
			r.err = cmp.Or(r.err, err)
			return stored
		}
		at, found := slices.BinarySearchFunc(after, ref, func(s apiserver.Slot,
			ref object.Ref) int {
			return world.CompareRefs(s.Ref, ref)
		})
		if !found {
			after = slices.Insert(after, at, apiserver.Slot{Ref: ref})
		}
		after[at] = slotAfter(after[at], now)
	}
	return after
}

// slotAfter returns a slot with the object that has the name now; nil for none.
func slotAfter(s apiserver.Slot, now *object.Object) apiserver.Slot {
	was := s.Object
	switch {
	case now == nil && was != nil:
		s.Written++ // No one says which version a deletion has; it is a later one.
	case now == nil:
	case was == nil || was.UID() != now.UID():
		s.Born++
		s.Written = now.Version()
	case was.ResourceVersion() == now.ResourceVersion():
		return s
	default:
		s.Written = now.Version()
	}
	s.Object = now
	return s
}

// readOne returns an object as it is stored now; nil if there is none.
func (r *realServer) readOne(ref object.Ref) (*object.Object, error) {
	resource, known := r.kinds.Resource(ref.GroupKind())
	if !known {
		return nil, fmt.Errorf("the kind %s is not known", ref.Kind.Kind)
	}
	raw, err := apiserver.Request{Method: http.MethodGet, Resource: resource, Namespace: ref.Namespace, Name: ref.Name}.HTTP(world.Editor)
	if err != nil {
		return nil, err
	}
	switch response := r.send(raw); {
	case response.Err != nil:
		return nil, response.Err
	case response.Code == http.StatusNotFound:
		return nil, nil //nolint:nilnil // No object is a state too.
	case response.Code >= http.StatusBadRequest:
		return nil, fmt.Errorf("read %s: the API server responds %d: %s", ref, response.Code, phrase.Message(response.Body))
	default:
		return object.ParseWithManagedFields(response.Body, resource.APIVersion(), resource.Kind)
	}
}

// pairs are the objects of memory on the cluster, by their UIDs.
type pairs struct{ memory, cluster []string }

// add adds the objects that have the same name now.
func (p *pairs) add(memory, cluster *state.Contents) {
	for _, at := range memory.Slots {
		other := cluster.Get(at.Name)
		if at.Version == nil || other.Version == nil || slices.Contains(p.memory, at.Version.Object.UID()) {
			continue
		}
		p.memory, p.cluster = append(p.memory, at.Version.Object.UID()), append(p.cluster, other.Version.Object.UID())
	}
}

// onCluster returns a text of memory with the UIDs of the cluster.
func (p *pairs) onCluster(text []byte) []byte {
	all := make([]string, 0, 2*len(p.memory))
	for i := range p.memory {
		all = append(all, p.memory[i], p.cluster[i])
	}
	return []byte(strings.NewReplacer(all...).Replace(string(text)))
}

// differences returns how objects that have changed in memory differ on the cluster, a line for each.
func (p *pairs) differences(changed []state.Change, cluster world.Stored) []string {
	var all []string
	last := map[object.Ref]*state.Version{}
	for _, c := range changed {
		last[c.After.Name.Ref] = c.After
	}
	for _, c := range changed {
		ref := c.After.Name.Ref
		if last[ref] == c.After {
			all = append(all, p.difference(c.After, cluster.Get(ref))...)
		}
	}
	return all
}

func (p *pairs) difference(expected *state.Version, got *object.Object) []string {
	ref := expected.Name.Ref.String()
	switch {
	case expected.Gone && got == nil:
		return nil
	case expected.Gone:
		return []string{"expected: " + ref + " is gone", "got:      it exists"}
	case got == nil:
		return []string{"expected: " + ref + " exists", "got:      it is gone"}
	}
	var lines []string
	for _, c := range object.KeyedChanges(bare(p.onCluster(expected.Object.JSON())), bare(got.JSON())) {
		if !isEmpty(c.From) {
			lines = append(lines, fmt.Sprintf("expected: %s has %s: %s", ref, c.Path, c.From), "got:      "+phrase.Value(c.To))
		}
	}
	return lines
}

// bare returns an object without what only one server knows: versions, times, and addresses that it chose. A
// real server has more defaults: what it has besides is left out by the caller.
func bare(data []byte) map[string]any {
	fields, err := object.Decode(data)
	if err != nil {
		return nil // A stored object is valid JSON.
	}
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp",
		"deletionGracePeriodSeconds"} {
		delete(metadata, name)
	}
	if spec, _ := fields["spec"].(map[string]any); fields["kind"] == "Service" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	lasthandled.HideDigests(fields)
	withoutTimes(fields)
	return fields
}

// withoutTimes replaces all times.
func withoutTimes(value any) any {
	switch v := value.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "a time"
		}
	case map[string]any:
		for name, below := range v {
			v[name] = withoutTimes(below)
		}
	case []any:
		for i, below := range v {
			v[i] = withoutTimes(below)
		}
	}
	return value
}

// isEmpty reports whether a value equals one that is absent, as servers leave them out.
func isEmpty(value []byte) bool {
	return slices.Contains([]string{"", "null", "{}", "[]", `""`, "0", "false"}, string(value))
}
