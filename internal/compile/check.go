package compile

import (
	"context"
	"errors"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// CheckCode returns why the code of hooks or an expression in a controller object does not compile, as Compile
// does; nil if it does, and if the object cannot be compiled for another reason. It looks up no kinds.
func (k Kind) CheckCode(ctx context.Context, o *object.Object, env Environment) *Refusal {
	env.Resolve, env.StatusOf, env.ObserveCall, env.checksCode = assumeServed, nil, nil, true
	compiled, err := k.Compile(ctx, o, env)
	if err == nil {
		compiled.Release()
		return nil
	}
	if refusal, refused := errors.AsType[*Refusal](err); refused && refusal.Reason == setpoint.ReasonInvalidSource {
		return refusal
	}
	return nil
}

// assumeServed is an Environment.Resolve for controllers that never run.
func assumeServed(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	kind := object.NewKind(apiVersion, plural)
	return object.Resource{Group: kind.Group, Version: kind.Version, Plural: plural, Kind: plural, Namespaced: true, Status: true}, nil
}
