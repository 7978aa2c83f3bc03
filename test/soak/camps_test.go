package soak

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A camp is a namespace with one tent, and with the account as which the controller of
// tents acts there. Camps are made and deleted whole; their kinds and rights come and go.
const (
	tent      = "tent"
	warden    = "warden"
	campLabel = "soak.test/camp"
	campCount = 6
)

// campKinds are the kinds that tents need and that come and go.
func campKinds() []string { return []string{"pegs", "forecasts"} }

// camper makes and deletes camps, and takes from tents what they need.
type camper struct {
	*soakRun
	rand *rand.Rand
	// last counts the camps: a new one does not wait until the namespace of a former one is gone.
	last int
}

// work goes on until ctx is done.
func (c *camper) work(ctx context.Context) {
	for pause(ctx, time.Duration(300+c.rand.IntN(900))*time.Millisecond) == nil {
		c.act(ctx)
	}
}

func (c *camper) act(ctx context.Context) {
	camps := c.camps(ctx)
	if len(camps) < campCount {
		c.last++
		c.pitch(ctx, fmt.Sprintf("camp-%d", c.last))
		return
	}
	camp := camps[c.rand.IntN(len(camps))]
	tents := c.cluster.Resource(parentsOf(tent)).Namespace(camp)
	patch := func(what, patch string) {
		_, err := tents.Patch(ctx, tent, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		c.cluster.noteRequest(what, err)
	}
	switch n := c.rand.IntN(100); {
	case n < 25:
		patch("a user edits a tent", fmt.Sprintf(`{"spec":{"value":"v%08x"}}`, c.rand.Uint32()))
	case n < 40:
		patch("a tent leaves the scope of its controller, or returns", fmt.Sprintf(`{"metadata":{"labels":{"camp":%q}}}`, []string{"open", "closed"}[c.rand.IntN(2)]))
	case n < 55:
		c.cluster.noteRequest("a user deletes a tent", tents.Delete(ctx, tent, metav1.DeleteOptions{}))
	case n < 65:
		c.cluster.noteRequest("a user makes a tent again", c.cluster.makeTent(ctx, camp))
	case n < 75:
		err := c.cluster.Resource(bindings()).Namespace(camp).Delete(ctx, warden, metav1.DeleteOptions{})
		c.cluster.noteRequest("the account of a namespace loses its rights", err)
	case n < 85:
		c.cluster.noteRequest("the account of a namespace gets its rights", c.cluster.bind(ctx, camp))
	default:
		err := c.cluster.Resource(resourceOf("v1", "Namespace")).Delete(ctx, camp, metav1.DeleteOptions{})
		c.cluster.noteRequest("a namespace with the account of its controller is deleted", err)
	}
}

// camps are the names of the namespaces that are not being deleted.
func (c *camper) camps(ctx context.Context) []string {
	list, err := c.cluster.listCamps(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, o := range list {
		if o.GetDeletionTimestamp() == nil {
			names = append(names, o.GetName())
		}
	}
	return names
}

func (c *cluster) listCamps(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := c.Resource(resourceOf("v1", "Namespace")).List(ctx, metav1.ListOptions{LabelSelector: campLabel})
	if err != nil {
		return nil, fmt.Errorf("list camps: %w", err)
	}
	return list.Items, nil
}

// pitch makes a camp.
func (c *camper) pitch(ctx context.Context, name string) {
	_, err := c.cluster.Resource(resourceOf("v1", "Namespace")).Create(ctx, camp(name), metav1.CreateOptions{})
	c.cluster.noteRequest("a user makes a namespace", err)
	_ = c.cluster.equip(ctx, name) // restoreCamps makes up for what fails
	c.cluster.noteRequest("a user makes a tent", c.cluster.makeTent(ctx, name))
}

func camp(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{campLabel: ""}}}}
}

// equip gives a camp its account and the rights of it.
func (c *cluster) equip(ctx context.Context, camp string) error {
	account := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": warden}}}
	_, err := c.Resource(resourceOf("v1", "ServiceAccount")).Namespace(camp).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.bind(ctx, camp)
}

func (c *cluster) bind(ctx context.Context, camp string) error {
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": warden},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": warden},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": warden, "namespace": camp}},
	}}
	_, err := c.Resource(bindings()).Namespace(camp).Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *cluster) makeTent(ctx context.Context, camp string) error {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "soak.test/v1", "kind": title(tent),
		"metadata": map[string]any{"name": tent, "labels": map[string]any{"camp": "open"}},
		"spec":     map[string]any{"children": int64(1), "value": "new"}}}
	_, err := c.Resource(parentsOf(tent)).Namespace(camp).Create(ctx, o, metav1.CreateOptions{})
	return err
}

// bringBack creates a kind of camps unless it is defined, and not while it is being deleted. It wants it served.
func (c *cluster) bringBack(ctx context.Context, plural string) error {
	made, err := c.Resource(definitions()).Create(ctx, campDefinition(plural), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = c.Resource(definitions()).Get(ctx, plural+".camp.soak.test", metav1.GetOptions{})
	}
	switch {
	case err != nil:
		return fmt.Errorf("bring back the kind %s: %w", plural, err)
	case made.GetDeletionTimestamp() != nil:
		return fmt.Errorf("the kind %s is still being deleted", plural)
	}
	if _, err := c.Resource(resourceOf("camp.soak.test/v1", title(strings.TrimSuffix(plural, "s")))).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("the kind %s is defined and not served: %w; %v", plural, err, made.Object["status"])
	}
	return nil
}

// restoreCamps gives tents all that they need: after it, nothing is missing any more.
func (s *soakRun) restoreCamps() {
	for _, plural := range campKinds() {
		eventually(s.t, plural+" to return", func(ctx context.Context) error { return s.cluster.bringBack(ctx, plural) })
	}
	eventually(s.t, "the rights of camps", func(ctx context.Context) error {
		camps, err := s.cluster.listCamps(ctx)
		if err != nil {
			return err
		}
		for _, o := range camps {
			if o.GetDeletionTimestamp() != nil {
				continue // check wants it gone in the end
			}
			if err := s.cluster.equip(ctx, o.GetName()); err != nil {
				return err
			}
		}
		return s.deleteLostTents(ctx)
	})
}

// deleteLostTents gives tents whose namespace is gone their namespace again, and deletes it. The namespace controller leaves
// tents behind if the API server, just started, did not serve their kind yet, and no client can change them then.
func (s *soakRun) deleteLostTents(ctx context.Context) error {
	lost, err := s.cluster.lostTents(ctx)
	namespaces := s.cluster.Resource(resourceOf("v1", "Namespace"))
	for _, o := range lost {
		if _, err := namespaces.Create(ctx, camp(o.GetNamespace()), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the namespace %s again: %w", o.GetNamespace(), err)
		}
		if err := namespaces.Delete(ctx, o.GetNamespace(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the namespace %s again: %w", o.GetNamespace(), err)
		}
	}
	return err
}

// lostTents returns the tents whose namespace is gone.
func (c *cluster) lostTents(ctx context.Context) ([]unstructured.Unstructured, error) {
	// Tents first: a namespace that comes meanwhile does not count as gone.
	tents, err := c.Resource(parentsOf(tent)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list tents: %w", err)
	}
	camps, err := c.listCamps(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(tents.Items, func(o unstructured.Unstructured) bool {
		return slices.ContainsFunc(camps, func(camp unstructured.Unstructured) bool { return camp.GetName() == o.GetNamespace() })
	}), nil
}

// checkCamps wants each deleted namespace gone with its tent, and in the others what tents want.
func (f *state) checkCamps(ctx context.Context) {
	for _, plural := range campKinds() {
		// A removal whose response was lost may have come after restoreCamps.
		if err := f.cluster.bringBack(ctx, plural); err != nil {
			f.problem("%v", err)
		}
	}
	lost, err := f.cluster.lostTents(ctx)
	if err != nil {
		f.problem("%v", err)
	}
	for _, o := range lost {
		f.problem("the tent of %s is there without its namespace; finalizers: %v", o.GetNamespace(), o.GetFinalizers())
	}
	camps, err := f.cluster.listCamps(ctx)
	if err != nil {
		f.problem("%v", err)
	}
	for _, camp := range camps {
		if camp.GetDeletionTimestamp() != nil {
			f.problem("the namespace %s is still being deleted", camp.GetName())
			continue
		}
		if err := f.checkTent(ctx, camp.GetName()); err != nil {
			f.problem("%s: %v", camp.GetName(), err)
		}
	}
}

func (f *state) checkTent(ctx context.Context, camp string) error {
	o, err := f.cluster.Resource(parentsOf(tent)).Namespace(camp).Get(ctx, tent, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // a user has deleted it
	}
	if err != nil {
		return fmt.Errorf("get the tent: %w", err)
	}
	if o.GetLabels()["camp"] != "open" {
		if len(o.GetFinalizers()) > 0 {
			return fmt.Errorf("the tent is out of scope, and has finalizers %v", o.GetFinalizers())
		}
		return nil
	}
	var owned []*unstructured.Unstructured
	for _, resource := range []schema.GroupVersionResource{resourceOf("v1", "ConfigMap"), pegs()} {
		list, err := f.cluster.Resource(resource).Namespace(camp).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			if owner := ownerOf(&list.Items[i]); owner != nil && owner.UID == o.GetUID() {
				owned = append(owned, &list.Items[i])
			}
		}
	}
	f.checkParent(o, owned)
	return nil
}

func bindings() schema.GroupVersionResource {
	return resourceOf("rbac.authorization.k8s.io/v1", "RoleBinding")
}

func definitions() schema.GroupVersionResource {
	return resourceOf("apiextensions.k8s.io/v1", "CustomResourceDefinition")
}

func pegs() schema.GroupVersionResource { return resourceOf("camp.soak.test/v1", "Peg") }

// campDefinition defines a kind of camps.
func campDefinition(plural string) *unstructured.Unstructured {
	singular := strings.TrimSuffix(plural, "s")
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".camp.soak.test"},
		"spec": map[string]any{
			"group": "camp.soak.test", "scope": "Namespaced",
			"names": map[string]any{"kind": title(singular), "plural": plural, "singular": singular},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

// The kinds of parents.
const (
	plot = "plot" // ConfigMaps and a Secret
	shed = "shed" // finalized child by child
	pot  = "pot"  // of metacontroller.k8s.io, with a selector
	lamp = "lamp" // decorated while it is lit
	bell = "bell" // handled, and reviewed before it is stored
	barn = "barn" // whose hook has ever new versions
)

func kinds() []string { return []string{plot, shed, pot, lamp, bell, barn} }

// canary is a parent that cannot have all it wants: another has its child's name.
const canary = plot + "-canary"

// parent is what a hook reads of one, and a check too.
type parent struct {
	Kind     string
	Metadata struct {
		Name, Namespace, UID string
		Annotations, Labels  map[string]string
	}
	Spec struct {
		Children int
		Value    string
	}
	// Status is that of a bell.
	Status struct{ Rung, Echo string }
}

func (p *parent) lit() bool { return p.Metadata.Annotations["lit"] == "yes" }

// desiredChild is a child that a parent wants.
type desiredChild struct {
	kind, name string
	// value is what its data says, as it stands there.
	value string
}

// desiredChildren are all that a parent wants: what the hook asks for, and what has to be
// there in the end.
func (p *parent) desiredChildren() []desiredChild {
	name := p.Metadata.Name
	if p.Kind == "Lamp" && !p.lit() {
		return nil
	}
	if p.Kind == "Bell" {
		return []desiredChild{{"ConfigMap", name + "-tone", p.Spec.Value}}
	}
	var all []desiredChild
	for i := range p.Spec.Children {
		all = append(all, desiredChild{"ConfigMap", fmt.Sprintf("%s-%d", name, i), p.Spec.Value})
	}
	if p.Kind == "Tent" {
		all = append(all, desiredChild{"Peg", name + "-peg", p.Spec.Value})
	}
	if p.Kind == "Plot" {
		all = append(all, desiredChild{"Secret", name + "-key", base64.StdEncoding.EncodeToString([]byte(p.Spec.Value))})
	}
	return all
}

// object returns the child as a hook responds with it.
func (w desiredChild) object(p *parent) map[string]any {
	metadata := map[string]any{"name": w.name}
	if p.Kind == "Pot" {
		metadata["labels"] = map[string]any{pot: p.Metadata.Name}
	}
	apiVersion := "v1"
	if w.kind == "Peg" {
		apiVersion = "camp.soak.test/v1"
	}
	return map[string]any{
		"apiVersion": apiVersion, "kind": w.kind, "metadata": metadata, "data": map[string]any{"value": w.value},
	}
}

// injectFaults lets everybody loose for a while.
func (s *soakRun) injectFaults(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	s.hook.setFaulty(true)
	defer s.hook.setFaulty(false)
	var busy sync.WaitGroup
	busy.Go(func() { s.newUser("second").work(ctx) })
	busy.Go(func() { s.newUser("third").work(ctx) })
	busy.Go(func() { (&tamperer{soakRun: s, rand: newRand(s.seed, "vandal")}).work(ctx) })
	busy.Go(func() { s.newReleaser().work(ctx) })
	busy.Go(func() { (&camper{soakRun: s, rand: newRand(s.seed, "camper")}).work(ctx) })
	busy.Go(func() { (&faultInjector{soakRun: s, rand: newRand(s.seed, "storm"), busy: &busy}).run(ctx) })
	busy.Wait()
	s.restoreCamps()
	s.restartGarbageCollector()
}

// restartGarbageCollector starts the garbage collector anew. One that has met a dead API
// server waits for up to a quarter of an hour before it tries an object again,
// and those of its name wait with it.
func (s *soakRun) restartGarbageCollector() {
	if err := s.plane.kill("kube-controller-manager"); err != nil {
		s.t.Logf("the garbage collector goes on as it is: %v", err)
	}
}

// faultInjector kills processes, and lets others sleep.
type faultInjector struct {
	*soakRun
	rand *rand.Rand
	busy *sync.WaitGroup
}

// fault is one of its doings.
type fault struct {
	name string
	do   func(context.Context) error
}

func (s *faultInjector) faults() []fault {
	return []fault{
		{"API server killed", func(context.Context) error { return s.plane.kill("kube-apiserver") }},
		{"etcd killed", func(context.Context) error { return s.plane.kill("etcd") }},
		{"leader killed", func(ctx context.Context) error { s.leader(ctx, true).terminate((*process).kill); return nil }},
		{"leader stopped", func(ctx context.Context) error { s.leader(ctx, true).terminate((*process).stop); return nil }},
		{"standby killed", func(ctx context.Context) error { s.leader(ctx, false).terminate((*process).kill); return nil }},
		{"leader frozen", func(ctx context.Context) error {
			frozen := s.leader(ctx, true)
			s.busy.Go(func() { frozen.freeze(ctx, s.between(11*time.Second, 16*time.Second)) })
			return nil
		}},
		{"a child kind of tents removed", func(ctx context.Context) error { return s.withoutKind(ctx, "pegs") }},
		{"a related kind of tents removed", func(ctx context.Context) error { return s.withoutKind(ctx, "forecasts") }},
		{"hook down", func(ctx context.Context) error { return s.hook.downFor(ctx, s.between(time.Second, 5*time.Second)) }},
	}
}

// run strikes every blow once, in an order of chance, and then again.
func (s *faultInjector) run(ctx context.Context) {
	for {
		blows := s.faults()
		s.rand.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
		for _, b := range blows {
			if pause(ctx, s.between(time.Second, 5*time.Second)) != nil {
				return
			}
			s.tally.add(b.name)
			if err := b.do(ctx); err != nil {
				s.tally.add(b.name + ", or would have been: " + err.Error())
			}
		}
	}
}

// withoutKind removes a kind of camps with all its objects, and brings it back.
func (s *faultInjector) withoutKind(ctx context.Context, plural string) error {
	err := s.cluster.Resource(definitions()).Delete(ctx, plural+".camp.soak.test", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the kind %s: %w", plural, err)
	}
	s.busy.Go(func() {
		_ = pause(ctx, s.between(2*time.Second, 8*time.Second))
		_ = s.cluster.bringBack(ctx, plural) // restoreCamps makes up for what fails
	})
	return nil
}

func (s *faultInjector) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rand.Int64N(int64(most-least)))
}

// leader is the replica that leads, or one that does not; should none be, any.
func (s *faultInjector) leader(ctx context.Context, leads bool) *replica {
	for _, r := range s.replicas {
		if r.isLeader(ctx) == leads {
			return r
		}
	}
	return s.replicas[s.rand.IntN(len(s.replicas))]
}

// uidLabel is on the children of parents without a selector.
const uidLabel = "controller-uid"

// tamperer deletes and changes children. Setpoint can repair all that it does: it never
// removes both owner and label, since Setpoint must not change such a child.
type tamperer struct {
	*soakRun
	rand *rand.Rand
}

func (v *tamperer) work(ctx context.Context) {
	for pause(ctx, time.Duration(50+v.rand.IntN(300))*time.Millisecond) == nil {
		victim := v.pick(ctx)
		if victim != nil {
			v.act(ctx, victim)
		}
	}
}

// pick picks one child of all.
func (v *tamperer) pick(ctx context.Context) *unstructured.Unstructured {
	kind := []string{"ConfigMap", "ConfigMap", "ConfigMap", "Secret"}[v.rand.IntN(4)]
	list, err := v.cluster.in(resourceOf("v1", kind)).List(ctx, metav1.ListOptions{})
	if err != nil {
		v.cluster.noteRequest("", err)
		return nil
	}
	var children []*unstructured.Unstructured
	for i := range list.Items {
		if ownerOf(&list.Items[i]) != nil {
			children = append(children, &list.Items[i])
		}
	}
	if len(children) == 0 {
		return nil
	}
	return children[v.rand.IntN(len(children))]
}

// ownerOf is the parent of ours that controls an object, or nil.
func ownerOf(o *unstructured.Unstructured) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(o)
	if owner == nil || !strings.HasPrefix(owner.APIVersion, "soak.test/") {
		return nil
	}
	return owner
}

// hasGeneratedSelector says that a child's parent has no selector of its own.
func hasGeneratedSelector(child *unstructured.Unstructured) bool {
	owner := strings.ToLower(ownerOf(child).Kind)
	return owner == plot || owner == shed
}

func (v *tamperer) act(ctx context.Context, victim *unstructured.Unstructured) {
	owner := strings.ToLower(ownerOf(victim).Kind)
	switch n := v.rand.IntN(100); {
	case n < 35 && owner != barn: // Of barns, a child that is deleted is one that a version has deleted.
		collection := v.cluster.in(resourceOf("v1", victim.GetKind()))
		v.cluster.noteRequest("another client deletes a child", collection.Delete(ctx, victim.GetName(), metav1.DeleteOptions{}))
	case n < 60:
		_ = unstructured.SetNestedField(victim.Object, "dmFuZGFs", "data", "value") // base64, for Secrets
		v.update(ctx, "another client edits a child", victim)
	case n < 70:
		_ = unstructured.SetNestedField(victim.Object, "bW9yZQ==", "data", "more")
		v.update(ctx, "another client adds to a child", victim)
	case n < 80:
		v.annotate(ctx, victim)
	case n < 90 && hasGeneratedSelector(victim):
		unstructured.RemoveNestedField(victim.Object, "metadata", "labels", uidLabel)
		v.update(ctx, "another client takes the label from a child", victim)
	case owner != lamp && owner != bell && (!hasGeneratedSelector(victim) || victim.GetLabels()[uidLabel] != ""):
		victim.SetOwnerReferences(nil)
		v.ledger.update(func(l *expectations) { l.unowned[string(victim.GetUID())] = true })
		v.update(ctx, "another client takes the owner from a child", victim)
	}
}

// update fails when the child has changed meanwhile.
func (v *tamperer) update(ctx context.Context, what string, victim *unstructured.Unstructured) {
	_, err := v.cluster.in(resourceOf("v1", victim.GetKind())).Update(ctx, victim, metav1.UpdateOptions{})
	v.cluster.noteRequest(what, err)
}

// annotate sets an annotation that Setpoint must not remove.
func (v *tamperer) annotate(ctx context.Context, victim *unstructured.Unstructured) {
	note, uid := fmt.Sprint(v.rand.Uint32()), string(victim.GetUID())
	_ = unstructured.SetNestedField(victim.Object, note, "metadata", "annotations", "note")
	stored, err := v.cluster.in(resourceOf("v1", victim.GetKind())).Update(ctx, victim, metav1.UpdateOptions{})
	v.ledger.update(func(l *expectations) {
		delete(l.notes, uid) // unknown if the response is lost
		if err == nil {
			l.notes[string(stored.GetUID())] = note
		}
	})
	v.cluster.noteRequest("another client annotates a child", err)
}
