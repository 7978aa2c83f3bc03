package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
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

// Metacontroller reports whether the kind is one of Metacontroller's.
func (k Kind) Metacontroller() bool { return k.Resource.Group == metacontroller.GroupVersion.Group }

func (k Kind) isDecorator() bool { return k.Resource.Kind == api.DecoratorControllerKind }

func (k Kind) form() hook.ControllerType {
	if k.isDecorator() {
		return hook.Decorator
	}
	return hook.Composite
}

func (k Kind) childrenField() string {
	if k.isDecorator() {
		return "spec.attachments"
	}
	return "spec.childResources"
}

const (
	// maxQualifiedName is the maximum length of the name in a finalizer or an annotation key, after
	// the slash.
	maxQualifiedName = 63
	// maxManager is the maximum length of a field manager.
	maxManager = 128
)

func (k Kind) finalizer(name string) string {
	domain := api.GroupVersion.Group
	if k.Metacontroller() {
		domain = "metacontroller.io"
	}
	return domain + "/" + shorten(strings.ToLower(k.Resource.Kind)+"-"+name, maxQualifiedName)
}

// HandlerFinalizer returns the default finalizer of a HandlerController.
func HandlerFinalizer(name string) string {
	return Kind{Resource: object.Resource{Kind: api.HandlerControllerKind}}.finalizer(name)
}

// manager returns the field manager of a controller. All controllers of metacontroller.k8s.io share
// one.
func (k Kind) manager(name string, env Environment) string {
	if k.Metacontroller() {
		return env.FieldManager
	}
	return shorten("setpoint-"+strings.ToLower(k.Resource.Kind)+"-"+name, maxManager)
}

// handlerSignature returns the name under which the handlers of a controller store their state. Go
// programs use another prefix.
func handlerSignature(name string) string { return "handlercontroller-" + name }

// recordAnnotation returns the annotation with the state of a controller's handlers.
func recordAnnotation(name string) string {
	return api.GroupVersion.Group + "/" + shorten(lasthandled.NamePrefix+handlerSignature(name), maxQualifiedName)
}

// copiedRecordAnnotation is that of kinds whose objects get copies of the record of others.
func copiedRecordAnnotation(name string) string { return recordAnnotation(name + "-replicasets") }

func isReplicaSet(resource object.Resource) bool {
	return resource.GroupKind() == object.GroupKind{Group: "apps", Kind: "ReplicaSet"}
}

// shorten replaces the end of a text that is too long by a hash of it.
func shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := "-" + hex.EncodeToString(sum[:5])
	return text[:longest-len(hash)] + hash
}

// ResourceName is a resource as named in a spec.
type ResourceName struct{ APIVersion, Plural string }

// String returns text such as "apps/v1/statefulsets".
func (n ResourceName) String() string { return n.APIVersion + "/" + n.Plural }

// ParseResourceName parses the result of String.
func ParseResourceName(text string) ResourceName {
	i := strings.LastIndexByte(text, '/')
	return ResourceName{APIVersion: text[:max(i, 0)], Plural: text[i+1:]}
}

// Group returns the API group; empty for the core group.
func (n ResourceName) Group() string { return object.GroupOf(n.APIVersion) }

// InList reports whether a list contains the resource in any version.
func (n ResourceName) InList(list []ResourceName) bool {
	return slices.ContainsFunc(list, func(other ResourceName) bool { return n.Plural == other.Plural && n.Group() == other.Group() })
}
