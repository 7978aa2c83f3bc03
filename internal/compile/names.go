package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
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
	domain := setpoint.GroupVersion.Group
	if k.Metacontroller() {
		domain = "metacontroller.io"
	}
	return domain + "/" + shorten(strings.ToLower(k.Resource.Kind)+"-"+name, maxQualifiedName)
}

// handlerSignature returns the name under which the handlers of a controller store their state. Go
// programs use another prefix.
func handlerSignature(name string) string { return "handlercontroller-" + name }

// recordAnnotation returns the annotation with the state of a controller's handlers.
func recordAnnotation(name string) string {
	return setpoint.GroupVersion.Group + "/" + shorten(lasthandled.NamePrefix+handlerSignature(name), maxQualifiedName)
}

// copiedRecordAnnotation is that of kinds whose objects get copies of the record of others.
func copiedRecordAnnotation(name string) string { return recordAnnotation(name + "-replicasets") }

// HandlerFinalizer returns the default finalizer of a HandlerController.
func HandlerFinalizer(name string) string {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Resource.Kind == setpoint.HandlerControllerKind })
	return kinds[i].finalizer(name)
}

// TakeOverRecords makes the programs continue from the records of a former HandlerController.
func (c *Compiled) TakeOverRecords(name string) {
	for i := range c.Handlers {
		p := &c.Handlers[i]
		record := lasthandled.Location{Annotation: recordAnnotation(name)}
		if p.HandledStatusKey != "" {
			record.StatusKey = handlerSignature(name)
		}
		p.FormerRecords = append(p.FormerRecords, record)
		if isReplicaSet(p.Resource) {
			p.FormerRecords = append(p.FormerRecords, lasthandled.Location{Annotation: copiedRecordAnnotation(name)})
		}
	}
}

// manager returns the field manager of a controller. All controllers of metacontroller.k8s.io share
// one.
func (k Kind) manager(name string, env Environment) string {
	if k.Metacontroller() {
		return env.FieldManager
	}
	return shorten("setpoint-"+strings.ToLower(k.Resource.Kind)+"-"+name, maxManager)
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
