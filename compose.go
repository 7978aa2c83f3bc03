package setpoint

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// Composer manages the children of one kind of parent. Setpoint calls its functions when
// a parent or its children change, and creates, updates and deletes children to match the
// desired ones. Handlers react to changes; a Composer declares the desired state.
type Composer[T any] struct{ kind *sdk.Composer }

// ComposeFunc computes the desired children of a parent. It must be safe for concurrent
// use with different parents, and depend only on the ComposeContext: Setpoint calls it
// many times, and only when the parent or its children change.
type ComposeFunc[T any] func(ctx context.Context, f *ComposeContext[T]) error

// Compose returns a Composer of a kind of parent. T and the options are those of For. In
// an app that is limited to namespaces, Workers are shared among them.
func Compose[T any](app *App, options ...KindOption) *Composer[T] {
	kind := sdk.NewComposer(sdk.Of(app), reflect.TypeFor[T]())
	applyToKind(&kind.Controller, options)
	return &Composer[T]{kind}
}

// Sync sets the function that computes the desired children of a parent. Setpoint deletes
// all other children of the kinds in Owns.
func (c *Composer[T]) Sync(fn ComposeFunc[T]) { c.kind.SetSync(c.hookOf(fn)) }

// Finalize sets the function that computes the children of a parent that is being deleted
// or no longer matches. The parent stays until the function returns nil without desired
// children and without a requeue, and no children are left.
func (c *Composer[T]) Finalize(fn ComposeFunc[T]) { c.kind.SetFinalize(c.hookOf(fn)) }

// hookOf returns a hook that calls fn; nil if there is no function.
func (c *Composer[T]) hookOf(fn ComposeFunc[T]) hook.Hook {
	if fn == nil {
		return nil
	}
	return hook.Func(func(ctx context.Context, req *hook.Request) (*hook.Response, error) {
		f, err := newComposeContext[T](&c.kind.Controller, req)
		if err != nil {
			return nil, err
		}
		name := "sync"
		if req.Finalizing {
			name = "finalize"
		}
		if err := f.call.Invoke(ctx, "function", name, func() error { return fn(ctx, f) }); err != nil {
			return nil, err
		}
		return f.buildResponse()
	})
}

// Customize sets the function that selects related objects for the other functions, of
// the kinds of objs and of the children. It must depend only on the parent.
func (c *Composer[T]) Customize(fn CustomizeFunc[T], obj ...any) {
	if fn == nil {
		c.kind.SetCustomize(nil, obj)
		return
	}
	c.kind.SetCustomize(func(ctx context.Context, data json.RawMessage) ([]sdk.RelatedRule, error) {
		parent, err := sdk.Decode[T](data)
		if err != nil {
			return nil, err
		}
		rules, err := fn(ctx, parent)
		return lists.Map(rules, func(r RelatedRule) sdk.RelatedRule { return sdk.RelatedRule(r) }), err
	}, obj)
}

// CustomizeFunc selects the objects that are related to a parent.
type CustomizeFunc[T any] func(ctx context.Context, parent *T) ([]RelatedRule, error)

// RelatedRule selects objects of one kind: by names in a namespace, or by labels in one
// namespace, in all namespaces, or in namespaces with certain labels. Without any field
// but Object it selects all objects of the kind. In an app that is limited to namespaces,
// it selects in those.
type RelatedRule struct {
	// Object is an object of the kind, such as &corev1.Secret{}.
	Object any
	// Labels select by the labels of the objects, NamespaceLabels by those of their
	// namespaces. NamespaceLabels require that Customize declares the kind Namespace.
	Labels, NamespaceLabels *metav1.LabelSelector
	Namespace               string
	Names                   []string
}

// Resync calls Sync for each parent at least this often.
func (c *Composer[T]) Resync(every time.Duration) { c.kind.SetResync(every) }

// SyncOnStatusChange also calls Sync when another client changed only the status of a
// parent.
func (c *Composer[T]) SyncOnStatusChange() { c.kind.SyncOnStatusChange = true }

// OmitConditions leaves the conditions Synced, Reconciling and Stalled out of the status
// of parents. By default Setpoint sets them if the schema of the parents has
// status.conditions. It does not change a condition that Sync sets.
func (c *Composer[T]) OmitConditions() { c.kind.OmitConditions = true }

// GuardDeletions sets the limits above which Setpoint holds deletions until a user
// confirms them: more than maxDeletions, and more than maxPercent of the children that
// are desired now or were created within ten minutes. Deletions after a change of the
// parent's spec do not count. The defaults are 5 and 25; with 0 and 0 every deletion is
// held.
func (c *Composer[T]) GuardDeletions(maxDeletions, maxPercent int) {
	c.kind.GuardDeletions(maxDeletions, maxPercent)
}

// NoDeletionGuard disables the deletion guard.
func (c *Composer[T]) NoDeletionGuard() { c.kind.Guard = nil }

// Owns declares a kind of children by an object of it, and how Setpoint updates a child
// that differs from the desired one. The default is server-side apply in place.
func (c *Composer[T]) Owns(obj any, options ...OwnsOption) {
	rule := plan.Rule{Method: plan.InPlace, Strategy: plan.ServerSide}
	for _, o := range options {
		o.applyToRule(&rule)
	}
	c.kind.OwnsBy(rule, obj)
}

// OwnsOption configures how Setpoint updates children.
type OwnsOption interface{ applyToRule(*plan.Rule) }

type ownsOption func(*plan.Rule)

func (o ownsOption) applyToRule(r *plan.Rule) { o(r) }

// UpdateStrategyType is how Setpoint updates a child that differs from the desired one.
type UpdateStrategyType string

// The update strategies.
const (
	// InPlace updates the child. It is the default.
	InPlace UpdateStrategyType = "InPlace"
	// Recreate deletes the child, and creates it when it is gone.
	Recreate UpdateStrategyType = "Recreate"
	// OnDelete does not update the child until a user deletes it.
	OnDelete UpdateStrategyType = "OnDelete"
	// RollingInPlace and RollingRecreate update one child after the other, each when the
	// previous ones are ready.
	RollingInPlace  UpdateStrategyType = "RollingInPlace"
	RollingRecreate UpdateStrategyType = "RollingRecreate"
)

// UpdateStrategy sets the update strategy of a kind of children.
func UpdateStrategy(m UpdateStrategyType) OwnsOption {
	return ownsOption(func(r *plan.Rule) { r.Method = plan.UpdateMethod(m) })
}

// MaxUnavailable is how many children a rolling strategy may update at once. The default
// is 1.
func MaxUnavailable(n int) OwnsOption {
	return ownsOption(func(r *plan.Rule) { r.MaxUnavailable = n })
}

// ReadyWhen sets when a rolling strategy considers a child ready: its status has a
// condition of this type and status, such as ReadyWhen("Ready", "True").
func ReadyWhen(condition, status string) OwnsOption {
	return ownsOption(func(r *plan.Rule) {
		r.StatusChecks = append(r.StatusChecks, plan.StatusCheck{Type: condition, Status: status})
	})
}
