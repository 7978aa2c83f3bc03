package handler

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Program is one controller with handlers, ready to run.
type Program struct {
	// Rules has the kind, the handlers, the record and the finalizers.
	trigger.Rules

	// Name identifies the controller in logs and metrics.
	Name string
	// Object is the controller as handlers see it; nil for a Go program.
	Object json.RawMessage
	// Labels and Fields are selectors that the API server applies; "" selects all.
	Labels, Fields string
	// Namespaces limits the handled objects, and what is written for them; empty for all
	// namespaces. Cluster-scoped kinds are not limited.
	Namespaces []string
	// Owns are the kinds that the program applies and watches. It may also delete those that
	// the handled object controls.
	Owns []object.Resource
	// Related are other watched objects, whose changes call handlers with hook.ReasonRelated.
	Related []Related
	// Writes permits further objects. A response that exceeds both is rejected as a whole, with a terminal error.
	Writes []permit.Write
	// Reads are the kinds that handlers may list, in Namespaces only if there are any.
	Reads []object.Resource
	// Conditions means that the schema of the kind has status conditions. If unknown, existing Conditions show it.
	Conditions bool
	// Manager is the field manager of all writes.
	Manager string
	// Account is as which ServiceAccount the controller writes, and what handlers may read; zero for Setpoint's
	// own rights.
	Account identity.Account
	// Backend is the process of the handlers; zero for a Go program.
	Backend Backend
	// Workers is the maximum number of concurrent reconciles; 32 if zero.
	Workers int
}

// Backend is what the process of the handlers does besides serving their calls.
type Backend struct {
	// ID is the same for all programs with handlers in the process.
	ID string
	// Notifications opens the stream of notifications; nil if there is none.
	Notifications backend.Opener
	// Index sends objects to the index of the process; nil if it has none of this program.
	Index func(context.Context, *hook.IndexRequest) error
}

// Related are objects whose changes call the handlers with hook.ReasonRelated.
type Related struct {
	Resource object.Resource
	// Namespaces limit the objects; empty for all. Labels and Fields are selectors that the API server applies.
	Namespaces     []string
	Labels, Fields string
	// Map returns the handled objects of a related one. It is called for each change, for the
	// object before and after it, and must be fast.
	Map func(*object.Object) []types.NamespacedName
}

// WatchNamespaces returns the namespaces of the watches, "" for all.
func (d *Related) WatchNamespaces() []string { return d.Resource.In(d.Namespaces) }

// matchFunc returns the program's condition, including the labels that the API server does not
// filter by; see serverSelector.
func (p *Program) matchFunc() func(*object.Object) bool {
	selector, err := labels.Parse(p.Labels)
	if err != nil || p.Labels == "" {
		// The API server reports an invalid selector.
		return p.Matches
	}
	others := p.Matches
	return func(o *object.Object) bool { return selector.Matches(o.Labels()) && (others == nil || others(o)) }
}

// serverSelector returns the label selector for the API server. It is empty if Setpoint must
// see objects that stop matching, to release them.
func (p *Program) serverSelector() string {
	if slices.ContainsFunc(p.Handlers, func(h trigger.Handler) bool { return h.NeedsFinalizer() }) {
		return ""
	}
	return p.Labels
}

func entriesOf(objects []*object.Object) []hook.Entry {
	return lists.Map(objects, func(o *object.Object) hook.Entry {
		return hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSON()}
	})
}

// Selections returns the watches of the handled kind. Controllers with equal selections share a watch.
func (p *Program) Selections() []cache.Selection {
	return lists.Map(p.NamespacesOf(p.Resource), func(namespace string) cache.Selection {
		return cache.Selection{Resource: p.Resource, Namespace: namespace, Labels: p.serverSelector(), Fields: p.Fields}
	})
}

// NamespacesOf returns the namespaces in which the program watches and writes a kind, "" for all.
func (p *Program) NamespacesOf(resource object.Resource) []string { return resource.In(p.Namespaces) }
