package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

const (
	// maxQualifiedName is the longest name the API takes behind the slash of a
	// finalizer, or of an annotation.
	maxQualifiedName = 63
	// maxManager is the longest name of a field manager.
	maxManager = 128
)

// finalizer is what keeps the parents of a controller until its finalize hook is
// done with them.
func (k Kind) finalizer(name string) string {
	domain, kind, _ := strings.Cut(k.conventions.finalizerPrefix, "/")
	return domain + "/" + shorten(kind+name, maxQualifiedName)
}

// handlerSignature is how the handlers of a controller sign. A Go program of the same name has
// another one.
func handlerSignature(name string) string { return "handlercontroller-" + name }

// recordAnnotation is the annotation in which objects keep what the handlers of a
// controller have dealt with.
func recordAnnotation(name string) string {
	return setpoint.GroupVersion.Group + "/" + shorten("handled-by-"+handlerSignature(name), maxQualifiedName)
}

// manager is the field manager of a controller. All controllers of
// metacontroller.k8s.io share one, as they do there.
func (k Kind) manager(name string, env Environment) string {
	if k.conventions.managerPrefix == "" {
		return env.FieldManager
	}
	return shorten(k.conventions.managerPrefix+name, maxManager)
}

// shorten is a text, or its beginning with a hash of the whole where it is too
// long.
func shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := "-" + hex.EncodeToString(sum[:5])
	return text[:longest-len(hash)] + hash
}
