package soak

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

func (s *soakRun) newCamper() *camper { return &camper{soakRun: s, rand: newRand(s.seed, "camper")} }

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
		patch("a tent leaves the scope of its controller, or returns", fmt.Sprintf(`{"metadata":{"labels":{"camp":%q}}}`, c.openOrClosed()))
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

func (c *camper) openOrClosed() string { return []string{"open", "closed"}[c.rand.IntN(2)] }

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
