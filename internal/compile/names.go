package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

const (
	// maxQualifiedName is the maximum length of the name in a finalizer or an annotation key, after
	// the slash.
	maxQualifiedName = 63
	// maxManager is the maximum length of a field manager.
	maxManager = 128
)

// finalizer returns the finalizer of a controller's parents.
func (k Kind) finalizer(name string) string {
	domain, kind, _ := strings.Cut(k.conventions.finalizerPrefix, "/")
	return domain + "/" + shorten(kind+name, maxQualifiedName)
}

// handlerSignature returns the name under which the handlers of a controller store their state. Go
// programs use another prefix.
func handlerSignature(name string) string { return "handlercontroller-" + name }

// recordAnnotation returns the annotation with the state of a controller's handlers.
func recordAnnotation(name string) string {
	return setpoint.GroupVersion.Group + "/" + shorten("handled-by-"+handlerSignature(name), maxQualifiedName)
}

// manager returns the field manager of a controller. All controllers of metacontroller.k8s.io share
// one.
func (k Kind) manager(name string, env Environment) string {
	if k.conventions.managerPrefix == "" {
		return env.FieldManager
	}
	return shorten(k.conventions.managerPrefix+name, maxManager)
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
