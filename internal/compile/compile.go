// Package compile turns what a user declared into a program the engine runs.
//
// A file per kind reads that kind's spec into one neutral form (declared);
// from there all kinds take the same way. Here live defaults, the names of
// things in the two API groups, and the refusals a user reads in the condition
// Accepted. Nothing here watches or writes; the host calls it.
package compile

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Kind is a kind of controller that can be compiled.
type Kind struct {
	// Resource is how the kind itself is served.
	Resource object.Resource
	// Name leads the names of its controllers in logs and metrics.
	Name        string
	conventions conventions
	// compile makes the programs. That of kinds with hooks starts from what read
	// reads.
	compile func(Kind, context.Context, *object.Object, Environment) (*Compiled, error)
	read    func(*object.Object, Environment) (*declared, error)
}

// Kinds are all of them: the one list the host watches by.
func Kinds() []Kind {
	return []Kind{setpointComposite(), setpointDecorator(), setpointHandler(), setpointAdmission(), metacontrollerComposite(), metacontrollerDecorator()}
}

// kindOf describes how a kind of controllers is served.
func kindOf(group schema.GroupVersion, plural, kind string) Kind {
	return Kind{
		Name:     strings.ToLower(kind) + "." + group.Group,
		compile:  Kind.compileHooks,
		Resource: object.Resource{Group: group.Group, Version: group.Version, Plural: plural, Kind: kind, Status: true, Custom: true},
	}
}

// Metacontroller says that Metacontroller serves this kind too.
func (k Kind) Metacontroller() bool { return k.Resource.Group == metacontroller.GroupVersion.Group }

// Environment is what compiling needs to know of the world.
type Environment struct {
	// Resolve finds a resource as the API server serves it. Its error wraps
	// ErrNotServed when there is none.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// ResolveKind is Resolve for who knows a kind, such as "Deployment", and not
	// its plural.
	ResolveKind func(ctx context.Context, apiVersion, kind string) (object.Resource, error)
	// StatusOf says what the status of a kind has a place for; nil where nobody
	// knows.
	StatusOf func(ctx context.Context, resource object.Resource) (Status, error)
	// Dial is how webhooks are reached; nil for the network. Routed says for which addresses it
	// leads elsewhere, past the proxies of the environment; nil for all.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Routed func(address string) bool
	// UserAgent is sent to webhooks.
	UserAgent string
	// Limits bound the responses of webhooks.
	Limits webhook.Limits
	// Connections bounds those of all webhooks together; nil bounds none.
	Connections *webhook.ConnectionLimiter
	// Workers is how many parents of a controller are worked on at once.
	Workers int
	// Resync is how often the hooks are asked at least, also about the parents
	// of controllers that do not say so; 0 leaves it to them.
	Resync time.Duration
	// Namespace keeps what belongs to cluster-scoped parents and cannot be
	// cluster-scoped itself.
	Namespace string
	// PodNamespace is the namespace that Setpoint's own pods are in; empty outside a cluster.
	PodNamespace string
	// ApplyStrategy and FieldManager are those of metacontroller.k8s.io.
	ApplyStrategy plan.ApplyStrategy
	FieldManager  string
	// DisableDeletionGuard has those of metacontroller.k8s.io delete whatever their hooks leave
	// out.
	DisableDeletionGuard bool
	// Store is where the Secrets and ConfigMaps of connections are watched.
	Store *cache.Cache
	// CredentialsRenewed is told when a controller has new credentials, with which calls
	// that failed are worth another try; may be nil.
	CredentialsRenewed func(controller string)
	// ObserveCall gets each webhook call of a controller, with the host and port that it went
	// to; may be nil.
	ObserveCall func(controller, address string, exchange webhook.CallResult)
}

// Status is what the schema of a kind has a place for in the status: conditions, and
// the records of handlers.
type Status struct{ Conditions, Records bool }

// ErrNotServed is wrapped by errors about a resource that the API server does
// not serve.
var ErrNotServed = errors.New("not served by the API server")

// Refusal is why a controller cannot be accepted as it is.
type Refusal struct {
	// Reason of the condition Accepted.
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

// Compiled is the programs of a controller with what the host needs to know of
// their making.
type Compiled struct {
	// Programs are one for each kind of parent, Reactions one for each kind of object
	// that has handlers, and Admission is what is asked before objects are stored, nil
	// for nothing. There is at least one of them, and they have one name.
	Programs  []compose.Program
	Handlers  []handle.Program
	Admission *admission.Program
	// AdmissionKinds are the kinds that Admission is about, as far as what becomes of their
	// definitions matters.
	AdmissionKinds []object.Resource
	// HookAddresses are the hosts and ports behind which the hooks are.
	HookAddresses []string
	// Suspended says that the programs are not to be run.
	Suspended bool
	// StatusWarning says of a kind of parents that its status cannot be stored; empty
	// where it can.
	StatusWarning string
	// Notes are things a user should know although the spec is accepted.
	Notes []string
	// Release lets go of the programs' connections.
	Release func()
}

// Name is that of the programs.
func (c *Compiled) Name() string {
	switch {
	case len(c.Programs) > 0:
		return c.Programs[0].Name
	case len(c.Handlers) > 0:
		return c.Handlers[0].Name
	}
	return c.Admission.Name
}

// Finalizes says that the programs put their finalizer on parents.
func (c *Compiled) Finalizes() bool {
	return slices.ContainsFunc(c.Programs, func(p compose.Program) bool { return p.Finalize != nil }) ||
		slices.ContainsFunc(c.Handlers, func(p handle.Program) bool { return blocksDeletion(&p) })
}

// blocksDeletion says that an object cannot go before a handler of it is done.
func blocksDeletion(p *handle.Program) bool {
	return slices.ContainsFunc(p.Handlers, func(h handle.Handler) bool {
		return h.Daemon != nil || !h.Optional && slices.Contains(h.On, hook.ReasonDelete)
	})
}

// Compile makes programs of a controller object. The error is a *Refusal when it
// lies with the object, else the world's (the API server did not answer).
func (k Kind) Compile(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	return k.compile(k, ctx, o, env)
}

// compileHooks makes the programs of a controller that asks hooks what should be.
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
	if err := d.setConditions(ctx, env, programs); err != nil {
		return nil, err
	}
	c := &connection{name: draft.Name, form: k.form(), childless: len(d.children) == 0, env: env}
	if err := c.connect(&d.hooks, programs); err != nil {
		return nil, err
	}
	return &Compiled{
		Programs:      programs,
		HookAddresses: d.hooks.all().addresses(),
		Suspended:     d.suspended || isPaused(o),
		StatusWarning: k.statusWarning(programs),
		Notes:         k.notes(d, programs),
		Release:       c.release,
	}, nil
}

// isPaused says that a user asks for a controller to be left alone for now.
func isPaused(o *object.Object) bool { return plan.Annotation(o, setpoint.AnnotationPaused) == "true" }

func (k Kind) form() hook.ControllerType {
	if k.conventions.isDecorator {
		return hook.Decorator
	}
	return hook.Composite
}

// notes adds what is known of the parents only.
func (k Kind) notes(d *declared, programs []compose.Program) []string {
	if problem := k.statusWarning(programs); problem != "" {
		return append(d.notes, problem)
	}
	return d.notes
}

// statusWarning names the kind of parents that has no place for the status in responses.
// The words are those that Metacontroller's users know.
func (k Kind) statusWarning(programs []compose.Program) string {
	for _, p := range programs {
		if !p.Parent.Status && !k.conventions.isDecorator {
			return fmt.Sprintf("%s does not have subresource 'Status' enabled: the status in responses is not stored", p.Parent)
		}
	}
	return ""
}

// readSpec decodes a controller object into the type of its kind.
func readSpec(o *object.Object, into any) error {
	if err := json.Unmarshal(o.JSON(), into); err != nil {
		return invalid("%w", err)
	}
	return nil
}
