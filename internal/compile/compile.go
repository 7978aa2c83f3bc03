// Package compile turns controller objects into programs.
//
// Each API group has a file that reads the specs of controllers with hooks into one neutral form
// (declared). From there all share the code. The package also has the defaults and names of both API groups,
// and the errors that users read in the condition Accepted. It does not watch or write. The manager
// calls it.
package compile

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// Kind is a kind of controller.
type Kind struct {
	// Resource is the kind itself.
	Resource object.Resource
	// Name is the prefix of its controllers' names in logs and metrics.
	Name    string
	compile compileFunc
}

type compileFunc func(Kind, context.Context, *object.Object, Environment) (*Compiled, error)

// Kinds returns all kinds. The manager watches them.
func Kinds() []Kind {
	composite, decorator := metacontroller.CompositeControllerKind, metacontroller.DecoratorControllerKind
	return []Kind{
		kindOf(setpoint.GroupVersion, setpoint.CompositeControllerResource, setpoint.CompositeControllerKind, Kind.compileHooks),
		kindOf(setpoint.GroupVersion, setpoint.DecoratorControllerResource, setpoint.DecoratorControllerKind, Kind.compileHooks),
		kindOf(setpoint.GroupVersion, setpoint.HandlerControllerResource, setpoint.HandlerControllerKind, Kind.compileHandlers),
		kindOf(setpoint.GroupVersion, setpoint.AdmissionControllerResource, setpoint.AdmissionControllerKind, Kind.compileAdmission),
		kindOf(metacontroller.GroupVersion, metacontroller.CompositeControllerResource, composite, Kind.compileHooks),
		kindOf(metacontroller.GroupVersion, metacontroller.DecoratorControllerResource, decorator, Kind.compileHooks),
	}
}

// KindOf returns the controller kind of an object.
func KindOf(o *object.Object) (Kind, bool) { return KindNamed(o.APIVersion(), o.Kind()) }

// KindNamed returns the controller kind of that name.
func KindNamed(apiVersion, kind string) (Kind, bool) {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Resource.APIVersion() == apiVersion && k.Resource.Kind == kind })
	if i < 0 {
		return Kind{}, false
	}
	return kinds[i], true
}

func kindOf(group schema.GroupVersion, plural, kind string, compile compileFunc) Kind {
	return Kind{
		Name:     strings.ToLower(kind) + "." + group.Group,
		compile:  compile,
		Resource: object.Resource{Group: group.Group, Version: group.Version, Plural: plural, Kind: kind, Status: true, Custom: true},
	}
}

// Metacontroller reports whether the kind is one of Metacontroller's.
func (k Kind) Metacontroller() bool { return k.Resource.Group == metacontroller.GroupVersion.Group }

// Environment has the dependencies and settings of compilation.
type Environment struct {
	// Resolve finds the resource of a plural. Its error wraps ErrNotServed if there is none.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// ResolveKind is Resolve for a kind, such as "Deployment".
	ResolveKind func(ctx context.Context, apiVersion, kind string) (object.Resource, error)
	// Known returns a kind of children, owned or read objects that is not served now but was, by its plural or
	// its kind; may be nil. The controller goes on without its objects, of which there are none.
	Known func(apiVersion, name string) (object.Resource, bool)
	// StatusOf returns which fields the status schema of a kind has; may be nil.
	StatusOf func(ctx context.Context, resource object.Resource) (Status, error)
	// Dial connects to webhooks; nil for the network. Routed reports for which addresses it is used
	// instead of a proxy; nil for all.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Routed func(address string) bool
	// Authorization returns the Authorization header for webhooks at a URL without credentials; "" for none.
	// Nil means none for all.
	Authorization func(url string) string
	// UserAgent is sent to webhooks.
	UserAgent string
	// Limits limit the responses of webhooks.
	Limits call.Limits
	// Inline compiles the code of inline hooks; its errors are a *call.SourceError for those in the
	// code. Exec opens a program; its errors are those of the command. Nil means that this process
	// does not run such hooks.
	Inline func(ctx context.Context, script call.Script) (call.Program, error)
	Exec   func(command call.Command) (call.Transport, error)
	// Sources reads the ConfigMaps with code; nil to read them once. It remembers the code that compiled.
	Sources *configmap.Reader
	// Expressions compiles CEL over variables; nil where controllers may not have any.
	Expressions func(source string, variables ...string) (Predicate, error)
	// Connections limits the connections of all webhooks together; nil for no limit.
	Connections *webhook.ConnectionLimiter
	// Workers is the maximum of concurrent reconciles of a controller.
	Workers int
	// Resync is the longest resync period of all controllers; 0 for none.
	Resync time.Duration
	// Namespaces are those in which the controllers of objects watch and write namespaced kinds; none
	// mean all.
	Namespaces []string
	// Namespace is where namespaced objects of cluster-scoped parents are stored.
	Namespace string
	// PodNamespace is the namespace of Setpoint's own pods; empty outside of a cluster.
	PodNamespace string
	// DefaultAccount is the ServiceAccount of controllers that name none. OwnRights means that all act with
	// the rights of this process, such as a user's dry run.
	DefaultAccount identity.Account
	OwnRights      bool
	// ApplyStrategy and FieldManager are those of metacontroller.k8s.io.
	ApplyStrategy plan.ApplyStrategy
	FieldManager  string
	// DisableDeletionGuard turns off the deletion guard for metacontroller.k8s.io.
	DisableDeletionGuard bool
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

// ErrNotServed means that the API server does not serve a resource.
var ErrNotServed = served.ErrNotServed

// Refusal is why a controller is not accepted.
type Refusal struct {
	// Reason is the reason of the condition Accepted.
	Reason string
	Err    error
}

func (r *Refusal) Error() string { return r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(reason, format string, args ...any) error {
	return &Refusal{Reason: reason, Err: fmt.Errorf(format, args...)}
}

func invalid(format string, args ...any) error {
	return refuse(setpoint.ReasonInvalidSpec, format, args...)
}

// Compiled is a compiled controller.
type Compiled struct {
	// Programs are one for each kind of parent, Reactions one for each kind of object
	// that has handlers, and Admission has the webhooks, nil if there are none. They have one name. There
	// is none of them only if other controllers of an operator handle all its kinds.
	Programs  []composite.Program
	Handlers  []handler.Program
	Admission *admission.Program
	// AdmissionKinds are the kinds that Admission reviews.
	AdmissionKinds []object.Resource
	// Credentials are the Secrets and ConfigMaps that connections to hooks need.
	Credentials []object.Ref
	// Code is that of inline hooks.
	Code Code
	// HookAddresses are the hosts and ports of the hooks, or inline, or exec: with a program.
	HookAddresses []string
	// Account is the ServiceAccount of the programs; zero for Setpoint's own rights.
	Account identity.Account
	// Suspended means that the programs must not run.
	Suspended bool
	// Rollout says how parents move to changed hooks; nil if they all do at once.
	Rollout *Rollout
	// StatusWarning says that a kind of parents has no status subresource; usually empty.
	StatusWarning string
	// Notes are warnings about an accepted spec.
	Notes []string
	// Excluded are namespaces in which the programs do not run yet, and Incomplete is why, if a user
	// has to act.
	Excluded   []string
	Incomplete *Refusal
	// Unserved are the kinds that are not served any more.
	Unserved []object.Resource
	// Absent are those of the namespaces that do not exist.
	Absent []string
	// Release closes the connections of the programs.
	Release func()
	// Index fills the indexes that functions in Go read by watches of a cache, until end is called; nil if there are
	// none. Compile does so by the Store, if there is one.
	Index func(from *cache.Cache) (end func(), err error)
}

// Code is the code of the inline hooks of a controller.
type Code struct {
	// ConfigMaps are those that hold code.
	ConfigMaps []object.Ref
	// Digest identifies the code that is in use; empty if there is none.
	Digest string
	// Outdated is why code of a ConfigMap cannot be used, so that the one before is; nil if it can.
	Outdated *Refusal
}

// Former returns the name of the version that reconciles the parents which have not moved; "" if all have.
func (c *Compiled) Former() string {
	for i := range c.Programs {
		if previous := c.Programs[i].Previous; previous != nil {
			return previous.Version
		}
	}
	return ""
}

// Close closes the connections of the programs, if there are any.
func (c *Compiled) Close() {
	if c != nil && c.Release != nil {
		c.Release()
	}
}

// Name returns the name of the programs; "" if there are none.
func (c *Compiled) Name() string {
	switch {
	case len(c.Programs) > 0:
		return c.Programs[0].Name
	case len(c.Handlers) > 0:
		return c.Handlers[0].Name
	case c.Admission != nil:
		return c.Admission.Name
	}
	return ""
}

// Add adds the programs of another part of the same controller.
func (c *Compiled) Add(part *Compiled) {
	release := c.Release
	c.Programs = append(c.Programs, part.Programs...)
	c.Handlers = append(c.Handlers, part.Handlers...)
	c.Credentials = append(c.Credentials, part.Credentials...)
	c.HookAddresses = slices.Compact(slices.Sorted(slices.Values(append(c.HookAddresses, part.HookAddresses...))))
	c.Notes = append(c.Notes, part.Notes...)
	c.Unserved = append(c.Unserved, part.Unserved...)
	c.Account, c.Suspended = part.Account, part.Suspended
	c.Release = func() {
		release()
		part.Release()
	}
}

// Finalizes reports whether the programs add a finalizer.
func (c *Compiled) Finalizes() bool {
	return slices.ContainsFunc(c.Programs, func(p composite.Program) bool { return p.Finalizes() }) ||
		slices.ContainsFunc(c.Handlers, func(p handler.Program) bool { return blocksDeletion(&p) })
}

// Finalizers returns the finalizers that the programs add, by the kind of the objects.
func (c *Compiled) Finalizers() map[ResourceName]string {
	all := map[ResourceName]string{}
	for i := range c.Programs {
		if p := &c.Programs[i]; p.Finalizes() {
			all[ResourceName{p.Parent.APIVersion(), p.Parent.Plural}] = p.Finalizer
		}
	}
	for i := range c.Handlers {
		if p := &c.Handlers[i]; blocksDeletion(p) {
			all[ResourceName{p.Resource.APIVersion(), p.Resource.Plural}] = p.Finalizer
		}
	}
	return all
}

// blocksDeletion reports whether the deletion of an object waits for a handler.
func blocksDeletion(p *handler.Program) bool {
	return slices.ContainsFunc(p.Handlers, func(h trigger.Handler) bool {
		return h.Daemon != nil || !h.Optional && slices.Contains(h.On, hook.ReasonDelete)
	})
}

// Compile compiles a controller object. The error is a *Refusal if the object is invalid, else one
// of the environment.
func (k Kind) Compile(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	return k.compile(k, ctx, o, env)
}

// read reads the spec of a controller with hooks.
func (k Kind) read(o *object.Object, env Environment) (*declared, error) {
	if k.Metacontroller() {
		return readMetacontroller(k, o, env)
	}
	return readSetpoint(k, o, env)
}

// compileHooks compiles a CompositeController or a DecoratorController.
func (k Kind) compileHooks(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	d, err := k.read(o, env)
	if err != nil {
		return nil, err
	}
	draft := k.draft(o, d, env)
	programs, err := d.resolve(ctx, env, draft)
	if err != nil {
		return nil, err
	}
	for i := range programs {
		if err := checkAccount(draft.Account, programs[i].Parent); err != nil {
			return nil, err
		}
	}
	if err := d.setConditions(ctx, env, programs); err != nil {
		return nil, err
	}
	c := &connection{name: draft.Name, object: k.Resource.Ref("", o.Name()), account: draft.Account, form: k.form(),
		childless: len(d.children) == 0, env: env}
	logic, err := c.connect(ctx, &d.hooks)
	if err != nil {
		return nil, err
	}
	rollout, former, err := k.rollout(ctx, o, d, c)
	if err != nil {
		c.release()
		return nil, err
	}
	for i := range programs {
		setLogic(&programs[i], logic, &d.hooks, rollout, former)
	}
	all := d.hooks.all()
	compiled := c.compiled(o, all, d.suspended)
	compiled.Programs = lists.FlatMap(programs, func(p composite.Program) []composite.Program { return PerNamespace(p, p.Namespaces) })
	compiled.Rollout, compiled.Unserved = rollout, d.unserved
	compiled.StatusWarning = k.statusWarning(programs)
	compiled.Notes = slices.Concat(d.notes, compiled.Notes, all.bareNameNotes(programs[0].Children))
	if former != nil {
		all = append(all, former.hooks.all()...)
		compiled.HookAddresses, compiled.Credentials = all.addresses(), all.credentials()
	}
	if compiled.StatusWarning != "" {
		compiled.Notes = append(compiled.Notes, compiled.StatusWarning)
	}
	return compiled, nil
}

func (k Kind) form() hook.ControllerType {
	if k.isDecorator() {
		return hook.Decorator
	}
	return hook.Composite
}

// statusWarning names the first kind of parents without a status subresource. Metacontroller uses
// the same words.
func (k Kind) statusWarning(programs []composite.Program) string {
	for _, p := range programs {
		if !p.Parent.Status && !k.isDecorator() {
			return fmt.Sprintf("%s does not have subresource 'Status' enabled: the status in responses is not stored", p.Parent)
		}
	}
	return ""
}

// readSpec decodes a controller object.
func readSpec(o *object.Object, into any) error {
	if err := json.Unmarshal(o.JSON(), into); err != nil {
		return invalid("%w", object.TypeError(o.JSON(), err))
	}
	return nil
}
