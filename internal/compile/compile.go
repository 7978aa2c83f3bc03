// Package compile turns what a user declared into a program the engine runs.
//
// A file per kind reads that kind's spec into one neutral form (composite);
// from there all kinds take the same way. Here live defaults, the names of
// things in the two API groups, and the refusals a user reads in the condition
// Accepted. Nothing here watches or writes; the host calls it.
package compile

import (
	"context"
	"errors"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/runtime/schema"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Kind is a kind of controller that can be compiled.
type Kind struct {
	// Resource is how the kind itself is served.
	Resource object.Resource
	// Name leads the names of its controllers in logs and metrics.
	Name string
	read func(*object.Object) (composite, error)
}

// Kinds are all of them: the one list the host watches by.
func Kinds() []Kind { return []Kind{setpointComposite(), metacontrollerComposite()} }

// compositeKind is a kind of CompositeController, of whichever group.
func compositeKind(group schema.GroupVersion, plural, kind string, read func(*object.Object) (composite, error)) Kind {
	return Kind{
		Name:     "compositecontroller." + group.Group,
		Resource: object.Resource{Group: group.Group, Version: group.Version, Plural: plural, Kind: kind, Status: true, Custom: true},
		read:     read,
	}
}

// Environment is what compiling needs to know of the world.
type Environment struct {
	// Resolve finds a resource as the API server serves it. Its error wraps
	// ErrNotServed when there is none.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	// Dial is how webhooks are reached; nil for the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// UserAgent is sent to webhooks.
	UserAgent string
	// Workers is how many parents of a controller are worked on at once.
	Workers int
	// Called is told of each webhook call of a controller; may be nil.
	Called func(controller string, exchange webhook.Exchange)
}

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

func unsupported(field string) error {
	return refuse(setpoint.ReasonUnsupported, "%s: not supported by this release of Setpoint; remove it, or keep running this controller with Metacontroller", field)
}

// Compiled is a program with what the host needs to know of its making.
type Compiled struct {
	engine.Program
	// HookAddress is the host and port behind which the sync hook is.
	HookAddress string
	// Notes are things a user should know although the spec is accepted.
	Notes []string
	// Release lets go of the program's connections.
	Release func()
}

// Compile makes a program of a controller object. The error is a *Refusal when
// it lies with the object, else the world's (the API server did not answer).
func (k Kind) Compile(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	spec, err := k.read(o)
	if err != nil {
		return nil, err
	}
	snapshot, err := o.With(nil, "status")
	if err != nil {
		return nil, err
	}
	compiled := &Compiled{Program: engine.Program{
		Name:    k.Name + "/" + o.Name(),
		Object:  snapshot.JSON(),
		Workers: env.Workers,
	}}
	if err := spec.resolve(ctx, env, compiled); err != nil {
		return nil, err
	}
	return compiled, spec.connect(env, compiled)
}
