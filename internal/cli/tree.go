package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (p *program) treeCommand() *cobra.Command {
	f := &readFlags{output: oneOf(asTable, wide, asJSON, asYAML)}
	c := &cobra.Command{
		Use:     "tree KIND/NAME",
		Aliases: []string{"trace"},
		Short:   "Show an object, what was made of it, and how all of that is doing",
		Long: `Show an object with the children that controllers made of it, and what was made
of those in turn: by controllers that run here, and by those of Kubernetes, such
as the ReplicaSets and Pods of a Deployment.

` + reachHelp,
		Example: `  setpoint tree team/red -n shop
  setpoint tree team/red -o json
  setpoint tree team/red -w`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no object is named; write KIND/NAME")}
			}
			_, _, err := parseObject(args)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, args []string) error { return p.tree(c.Context(), f, args) },
	}
	f.register(c)
	return c
}

// node is an object of a tree.
type node struct {
	inspect.Child
	// State and Error are how it is doing in the care of controllers, Controllers which
	// those are.
	State       inspect.State `json:"state,omitempty"`
	Error       string        `json:"error,omitempty"`
	Controllers []string      `json:"controllers,omitempty"`
	Children    []*node       `json:"children,omitempty"`
	// Hidden is how many children the user may not see, and Children leaves out.
	Hidden int `json:"hidden,omitempty"`
}

func (p *program) tree(ctx context.Context, f *readFlags, args []string) error {
	r, reader, ref, err := f.openObject(ctx, p, args)
	if err != nil {
		return err
	}
	last := ""
	return r.follow(ctx, func(ctx context.Context) error {
		g := &growing{reading: r, reader: reader, seen: map[string]bool{}, listed: map[inspect.Ref][]unstructured.Unstructured{}}
		root, err := g.root(ctx, ref)
		if err != nil {
			return err
		}
		var text strings.Builder
		if f.output.value == asJSON || f.output.value == asYAML {
			err = encode(&text, f.output.value, root)
		} else {
			err = g.draw(&text, root, time.Now())
		}
		if err != nil || text.String() == last {
			return err
		}
		if last != "" && f.output.value != asYAML {
			fmt.Fprintln(r.stdout)
		}
		last = text.String()
		_, err = fmt.Fprint(r.stdout, last)
		return err
	})
}

// growing makes one tree.
type growing struct {
	*reading
	*reader
	// seen are the objects that are in the tree, by their UID.
	seen map[string]bool
	// listed are lists that were asked for already, by kind and namespace.
	listed map[inspect.Ref][]unstructured.Unstructured
}

// root is the tree of an object.
func (g *growing) root(ctx context.Context, ref inspect.Ref) (*node, error) {
	stored, err := g.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, fmt.Errorf("there is no %s", nameOf(ref))
	}
	n := nodeOf(ref, stored)
	err = g.grow(ctx, n, 0)
	return n, cmp.Or(err, g.rights.sure())
}

func nodeOf(ref inspect.Ref, stored *object.Object) *node {
	ref.UID = stored.UID()
	n := &node{Child: inspect.Child{Ref: ref, Created: createdAt(stored)}}
	n.Health, n.Message = inspect.HealthOf(stored)
	return n
}

func createdAt(o *object.Object) time.Time {
	var at time.Time
	if json.Unmarshal(o.Field("metadata", "creationTimestamp"), &at) != nil {
		return time.Time{} // One that is not stored.
	}
	return at
}

// maxDepth is how deep a tree may be: owners could go round in circles.
const maxDepth = 8

// grow adds what was made of an object.
func (g *growing) grow(ctx context.Context, n *node, depth int) error {
	g.seen[n.UID] = true
	if depth == maxDepth {
		return nil
	}
	answers, err := each(ctx, g.reading, func(ctx context.Context, s inspect.Source) ([]inspect.Care, error) { return s.About(ctx, n.Ref) })
	if err != nil {
		return err
	}
	for _, a := range answers {
		for _, c := range g.rights.cares(ctx, a.Value) {
			g.care(n, c)
		}
	}
	if err := g.addOwned(ctx, n); err != nil {
		return err
	}
	slices.SortStableFunc(n.Children, func(a, b *node) int {
		return cmp.Or(strings.Compare(a.Kind.Kind, b.Kind.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, child := range n.Children {
		if err := g.grow(ctx, child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// care adds what a controller says of an object.
func (g *growing) care(n *node, c readable) {
	n.Controllers = append(n.Controllers, c.Controller)
	if n.State == "" || n.State == inspect.Well {
		n.State, n.Error = c.State, troubleOf(c.Care)
	}
	n.Hidden += c.Hidden
	for _, child := range c.Family {
		g.add(n, &node{Child: child})
	}
}

func (g *growing) add(to, child *node) {
	if child.UID != "" && g.seen[child.UID] {
		return
	}
	g.seen[child.UID] = true
	to.Children = append(to.Children, child)
}

// madeOf are the kinds that the controllers of Kubernetes make of others.
func madeOf(k inspect.Kind) []inspect.Kind {
	pods := inspect.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	jobs := inspect.Kind{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job", Namespaced: true}
	sets := inspect.Kind{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true}
	return map[string][]inspect.Kind{
		"apps/Deployment": {sets}, "apps/ReplicaSet": {pods}, "apps/StatefulSet": {pods}, "apps/DaemonSet": {pods},
		"batch/CronJob": {jobs}, "batch/Job": {pods}, "/ReplicationController": {pods},
	}[k.Group+"/"+k.Kind]
}

// addOwned adds what the controllers of Kubernetes made of an object, as far as the
// user may see it.
func (g *growing) addOwned(ctx context.Context, n *node) error {
	for _, kind := range madeOf(n.Kind) {
		items, err := g.list(ctx, inspect.Ref{Kind: kind, Namespace: n.Namespace})
		if err != nil {
			return err
		}
		for i := range items {
			if !ownedBy(&items[i], n.UID) {
				continue
			}
			text, err := items[i].MarshalJSON()
			stored, err := objectOf(text, err)
			if err != nil {
				return err
			}
			g.add(n, nodeOf(inspect.Ref{Kind: kind, Namespace: n.Namespace, Name: items[i].GetName()}, stored))
		}
	}
	return nil
}

func ownedBy(o *unstructured.Unstructured, uid string) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return string(owner.UID) == uid })
}

// list lists the objects of a kind, once.
func (g *growing) list(ctx context.Context, of inspect.Ref) ([]unstructured.Unstructured, error) {
	if items, known := g.listed[of]; known {
		return items, nil
	}
	g.listed[of] = nil
	list, err := g.at(of).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		fmt.Fprintf(g.stderr, "warning: you may not list %s in namespace %s, which are left out\n", of.Plural, clean(of.Namespace))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s in namespace %s: %w", of.Plural, of.Namespace, err)
	}
	g.listed[of] = list.Items
	return list.Items, nil
}
