// Package compile turns controller objects into programs.
//
// Each API group has a file that reads the specs of controllers with hooks into one neutral form
// (neutralSpec). From there all share the code. The package also has the defaults and names of both API groups,
// and the errors that users read in the condition Accepted. It does not watch or write. The manager
// calls it.
package compile

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Kinds returns all kinds. The manager watches them.
func Kinds() []Kind {
	composite, decorator := metacontroller.CompositeControllerKind, metacontroller.DecoratorControllerKind
	return []Kind{
		kindOf(api.GroupVersion, api.CompositeControllerResource, api.CompositeControllerKind, Kind.compileHooks),
		kindOf(api.GroupVersion, api.DecoratorControllerResource, api.DecoratorControllerKind, Kind.compileHooks),
		kindOf(api.GroupVersion, api.HandlerControllerResource, api.HandlerControllerKind, Kind.compileHandlers),
		kindOf(api.GroupVersion, api.AdmissionControllerResource, api.AdmissionControllerKind, Kind.compileAdmission),
		kindOf(metacontroller.GroupVersion, metacontroller.CompositeControllerResource, composite, Kind.compileHooks),
		kindOf(metacontroller.GroupVersion, metacontroller.DecoratorControllerResource, decorator, Kind.compileHooks),
	}
}

// KindOf returns the controller kind of an object.
func KindOf(o *object.Object) (Kind, bool) { return KindNamed(o.APIVersion(), o.Kind()) }

// KindNamed returns the controller kind of that name.
func KindNamed(apiVersion, kind string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Resource.APIVersion() == apiVersion && k.Resource.Kind == kind {
			return k, true
		}
	}
	return Kind{}, false
}

func kindOf(group schema.GroupVersion, plural, kind string, compile compileFunc) Kind {
	return Kind{
		Name:     strings.ToLower(kind) + "." + group.Group,
		compile:  compile,
		Resource: object.Resource{Group: group.Group, Version: group.Version, Plural: plural, Kind: kind, Status: true, Custom: true},
	}
}

// Compile compiles a controller object. The error is a *Refusal if the object is invalid, else one
// of the environment.
func (k Kind) Compile(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	return k.compile(k, ctx, o, env)
}

// CheckCode returns why the code of hooks or an expression in a controller object does not compile, as Compile
// does; nil if it does, and if the object cannot be compiled for another reason. It looks up no kinds.
func (k Kind) CheckCode(ctx context.Context, o *object.Object, env Environment) *Refusal {
	env.Resolve, env.StatusOf, env.ObserveCall, env.checksCode = assumeServed, nil, nil, true
	compiled, err := k.Compile(ctx, o, env)
	if err == nil {
		compiled.Release()
		return nil
	}
	if refusal, refused := errors.AsType[*Refusal](err); refused && refusal.Reason == api.ReasonInvalidSource {
		return refusal
	}
	return nil
}

// assumeServed is an Environment.Resolve for controllers that never run.
func assumeServed(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	kind := object.NewKind(apiVersion, plural)
	return object.Resource{Group: kind.Group, Version: kind.Version, Plural: plural, Kind: plural, Namespaced: true, Status: true}, nil
}

// CheckFields returns an error that names the fields of a controller object from a file that its
// kind does not have. The API server refuses or drops them before they are stored. Compile ignores
// them: those of a newer CRD are no fault of the object.
func CheckFields(o *object.Object) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(api.AddToScheme(scheme), metacontroller.AddToScheme(scheme)); err != nil {
		return err
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
	_, _, err := decoder.Decode(o.JSON(), nil, nil)
	if strict, is := runtime.AsStrictDecodingError(err); is {
		return utilerrors.NewAggregate(strict.Errors())
	}
	return nil // Compile reports other errors in its own words.
}
