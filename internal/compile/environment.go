package compile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Settings are those of all controllers.
type Settings struct {
	// Namespace is where namespaced objects of cluster-scoped parents are stored.
	Namespace string
	// Namespaces are those in which the controllers of objects watch and write namespaced kinds; none
	// mean all.
	Namespaces []string
	// Workers is the maximum of concurrent reconciles of a controller.
	Workers int
	// Resync is the longest interval between reconciles of an object; 0 leaves it to each controller.
	Resync time.Duration
	// Dial connects to webhooks; nil for the network. Routed reports for which addresses it is used
	// instead of a proxy; nil for all.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Routed func(address string) bool
	// Limits limit the responses of hooks; the zero value has defaults.
	Limits call.Limits
	// Inline compiles the code of inline hooks; its errors are a *call.SourceError for those in the
	// code. Exec opens a program; its errors are those of the command. Nil means that this process
	// does not run such hooks.
	Inline func(ctx context.Context, script call.Script) (call.Program, error)
	Exec   func(command call.Command) (call.Transport, error)
	// Expressions compiles CEL over variables; nil where controllers may not have any.
	Expressions func(source string, variables ...string) (Predicate, error)
	// DefaultAccount is the ServiceAccount of controllers that name none; zero for the rights of this process. OwnRights
	// means that all act with those, such as a user's dry run.
	DefaultAccount identity.Account
	OwnRights      bool
	// ApplyStrategy is how controllers of metacontroller.k8s.io apply children, and FieldManager who does so by ServerSide.
	// DisableDeletionGuard turns off their deletion guard. Controllers of setpoint.dev have fields for these.
	ApplyStrategy        plan.ApplyStrategy
	FieldManager         string
	DisableDeletionGuard bool
}

// Environment has the dependencies and settings of compilation.
type Environment struct {
	Settings

	// Resolve finds the resource of a plural. Its error wraps ErrNotServed if there is none.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// ResolveKind is Resolve for a kind, such as "Deployment".
	ResolveKind func(ctx context.Context, apiVersion, kind string) (object.Resource, error)
	// Known returns a kind of children, owned or read objects that is not served now but was, by its plural or
	// its kind; may be nil. The controller goes on without its objects, of which there are none.
	Known func(apiVersion, name string) (object.Resource, bool)
	// StatusOf returns which fields the status schema of a kind has; may be nil.
	StatusOf func(ctx context.Context, resource object.Resource) (Status, error)
	// Authorization returns the Authorization header for webhooks at a URL without credentials; "" for none.
	// Nil means none for all.
	Authorization func(url string) string
	// UserAgent is sent to webhooks.
	UserAgent string
	// Sources reads the ConfigMaps with code; nil to read them once. It remembers the code that compiled.
	Sources *configmap.Reader
	// Connections limits the connections of all webhooks together; nil for no limit.
	Connections *webhook.ConnectionLimiter
	// PodNamespace is the namespace of Setpoint's own pods; empty outside of a cluster.
	PodNamespace string
	// Store watches the Secrets and ConfigMaps of connections; nil for programs that never run. Their
	// code is not compiled.
	Store *cache.Cache
	// CredentialsRenewed is called when a controller has new credentials, so that failed calls can
	// be retried; may be nil.
	CredentialsRenewed func(controller string)
	// FormerLogic returns the name and the stored data of the version that reconciles the parents of a controller
	// which have not moved to another one; "" if all have. A nil function means that they have.
	FormerLogic func(ctx context.Context, o *object.Object, version string) (name string, data json.RawMessage, err error)
	// checksCode means that hooks are not called: only their code is compiled.
	checksCode bool
	// ObserveCall receives each webhook call of a controller with its host and port; may be nil.
	ObserveCall func(controller, address string, exchange call.Result)
}

// Status says whether the status schema of a kind has conditions, takes any field for lack of a schema of conditions, and
// has the records of handlers.
type Status struct{ Conditions, Untyped, Records bool }

// Predicate evaluates an expression with the values of its variables: a json.RawMessage, a []json.RawMessage, a
// string, or nil.
type Predicate = func(values map[string]any) (bool, error)

// AccountOf returns as which ServiceAccount a controller acts.
func (env *Environment) AccountOf(declared api.Identity) identity.Account {
	switch {
	case env.OwnRights:
		return identity.Account{}
	case declared.ServiceAccountName == "":
		return env.DefaultAccount
	}
	return identity.Account{Namespace: declared.ServiceAccountNamespace, Name: declared.ServiceAccountName}
}

// checkAccount returns an error if objects of a kind have no namespace to find the ServiceAccount in.
func checkAccount(account identity.Account, of object.Resource) error {
	if account.PerNamespace() && !of.Namespaced {
		return invalid("spec.serviceAccountNamespace: required: %s are cluster-scoped, so the ServiceAccount %s cannot be in their "+
			"namespace", of, account.Name)
	}
	return nil
}

// Conditions reports whether the status of a kind of parents holds conditions; false if unknown.
func (env *Environment) Conditions(ctx context.Context, resource object.Resource) (bool, error) {
	if env.StatusOf == nil || !resource.Custom || !resource.Status {
		return false, nil
	}
	status, err := env.StatusOf(ctx, resource)
	return status.Conditions || status.Untyped, err
}

func resolveResource(ctx context.Context, env Environment, name resourceRef) (object.Resource, error) {
	resource, err := env.Resolve(ctx, name.apiVersion, name.plural)
	if errors.Is(err, ErrNotServed) {
		return resource, notServed(name)
	}
	if err != nil {
		return resource, fmt.Errorf("%s: look up %s of %s: %w", name.field, name.plural, name.apiVersion, err)
	}
	return resource, nil
}

// resolveUsed is resolveResource for a kind that the controller can do without once it has run with it: deletion
// and the other kinds must not wait until it is served again.
func resolveUsed(ctx context.Context, env Environment, name resourceRef) (object.Resource, error) {
	resource, err := resolveResource(ctx, env, name)
	if known, was := env.ServedBefore(err, name.apiVersion, name.plural); was {
		return known, nil
	}
	return resource, err
}

// ServedBefore returns the kind that was served before the error of Resolve or ResolveKind, and whether there is one.
func (env *Environment) ServedBefore(err error, apiVersion, name string) (known object.Resource, was bool) {
	if env.Known == nil || !errors.Is(err, ErrNotServed) {
		return known, false
	}
	known, was = env.Known(apiVersion, name)
	known.Unserved = true
	return known, was
}
