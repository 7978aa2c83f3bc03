// Package load makes the reference work and tells when it is done: it creates,
// changes and deletes parents, and watches until every child and every status
// is what it should be.
//
// It does not know who does the work. It writes and reads bytes, so that the
// processor is left to those who are measured.
package load

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// Work is a number of parents in one namespace and what is wanted of them.
type Work struct {
	Namespace string
	Parents   int
	// Children is the number of children of each parent.
	Children int
	// Round names the values: another round, other values.
	Round string
	// Padding is the size of a text that each child holds beside the value.
	Padding int
	// Shared names the ConfigMap that all parents read, if any.
	Shared string
}

// Value is what the i-th parent wants its children to hold.
func (w Work) Value(i int) string {
	return fmt.Sprintf("%s-%d", w.Round, i)
}

// Objects is the number of parents and children together.
func (w Work) Objects() int { return w.Parents * (1 + w.Children) }

// NamespacePath is where a namespace is found.
func NamespacePath(namespace string) string { return "/api/v1/namespaces/" + namespace }

// ThingsPath is where the parents of a namespace are found.
func ThingsPath(namespace string) string {
	return "/apis/" + thing.Group + "/" + thing.Version + "/namespaces/" + namespace + "/" + thing.Resource
}

// ChildrenPath is where the children of a namespace are found.
func ChildrenPath(namespace string) string { return NamespacePath(namespace) + "/configmaps" }

// Generator makes requests, several at once.
type Generator struct {
	Client  *cluster.Client
	Workers int
}

// Create creates the parents.
func (g *Generator) Create(ctx context.Context, w Work) error {
	path := ThingsPath(w.Namespace)
	return Each(ctx, w.Parents, g.Workers, func(ctx context.Context, i int) error {
		body := fmt.Appendf(nil, `{"apiVersion":"%s/%s","kind":"%s","metadata":{"name":"%s"},"spec":{"value":"%s","children":%d,"padding":%d,"shared":"%s"}}`,
			thing.Group, thing.Version, thing.Kind, thing.Name(i), w.Value(i), w.Children, w.Padding, w.Shared)
		_, err := g.Client.Create(ctx, path, body)
		return err
	})
}

// Change gives each parent the value of this round.
func (g *Generator) Change(ctx context.Context, w Work) error {
	return Each(ctx, w.Parents, g.Workers, func(ctx context.Context, i int) error {
		return g.ChangeOne(ctx, w.Namespace, thing.Name(i), w.Value(i))
	})
}

// ChangeOver is Change, spread evenly over a time.
func (g *Generator) ChangeOver(ctx context.Context, w Work, over time.Duration) error {
	since := time.Now()
	return Each(ctx, w.Parents, g.Workers, func(ctx context.Context, i int) error {
		due := time.NewTimer(time.Until(since.Add(over * time.Duration(i) / time.Duration(w.Parents))))
		defer due.Stop()
		select {
		case <-due.C:
			return g.ChangeOne(ctx, w.Namespace, thing.Name(i), w.Value(i))
		case <-ctx.Done():
			return nil // Each knows why
		}
	})
}

// ChangeShared gives the ConfigMap that all parents read a value, and creates
// it if it does not exist.
func (g *Generator) ChangeShared(ctx context.Context, w Work, value string) error {
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{"%s":"%s"}}`,
		w.Shared, thing.ValueKey, value)
	return g.Client.Apply(ctx, ChildrenPath(w.Namespace)+"/"+w.Shared, body)
}

// ChangeOne gives one parent a value.
func (g *Generator) ChangeOne(ctx context.Context, namespace, name, value string) error {
	patch := fmt.Appendf(nil, `{"spec":{"value":"%s"}}`, value)
	return g.Client.Merge(ctx, ThingsPath(namespace)+"/"+name, patch)
}

// Delete deletes the parents, one by one as users do.
func (g *Generator) Delete(ctx context.Context, w Work) error {
	return Each(ctx, w.Parents, g.Workers, func(ctx context.Context, i int) error {
		return g.Client.Delete(ctx, ThingsPath(w.Namespace)+"/"+thing.Name(i))
	})
}

// CreateUnrelated creates n ConfigMaps without an owner.
func (g *Generator) CreateUnrelated(ctx context.Context, namespace string, n, size int) error {
	data := strings.Repeat("u", size)
	return Each(ctx, n, g.Workers, func(ctx context.Context, i int) error {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"unrelated-%05d"},"data":{"text":"%s"}}`,
			i, data)
		_, err := g.Client.Create(ctx, ChildrenPath(namespace), body)
		return err
	})
}

// CreateNamespace creates a namespace if there is none of that name.
func (g *Generator) CreateNamespace(ctx context.Context, namespace string) error {
	return g.Client.Apply(ctx, NamespacePath(namespace),
		fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s"}}`, namespace))
}

// Each calls do for 0 to n-1, so many at once, and stops at the first error.
func Each(ctx context.Context, n, workers int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
