package compile

import (
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// declared is the neutral form of a controller, whatever its kind and group.
type declared struct {
	// targets are the parents: one of a composite, several of a decorator.
	targets  []target
	children []child
	hooks    hooks
	// generateSelector, revisions and resync are as in engine.Program.
	generateSelector bool
	revisions        [][]string
	resync           time.Duration
	suspended        bool
	// whole is as in engine.Program.
	whole bool
	guard *plan.Guard
	// conditions says that parents are to say in conditions how they are doing.
	conditions bool
	notes      []string
}

// named is a resource as a user names it, and the field where.
type named struct{ field, apiVersion, plural string }

// index is the path of an item of a list.
func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// target is a rule for parents.
type target struct {
	named
	labels      *metav1.LabelSelector
	annotations *annotationSelector
	statusWakes bool
}

// annotationSelector is that of either group.
type annotationSelector struct {
	match       map[string]string
	expressions []metav1.LabelSelectorRequirement
}

// child is a rule for children. The Resource of its rule is not known yet.
type child struct {
	named
	rule plan.Rule
}

// manner is how the controllers of a group and kind leave their mark on objects.
type manner struct {
	// decorates says that it is a DecoratorController.
	decorates bool
	// finalizers and managers lead the names of these; mark is the annotation
	// on attachments.
	finalizers, managers string
	mark                 string
	// lastApplied, failureReason and outline are as in engine.Program.
	lastApplied   string
	failureReason string
	// ignoreNamespaces is as in engine.Program.
	ignoreNamespaces bool
	outline          bool
}

// draft is what all programs of a controller have in common.
func (k Kind) draft(o *object.Object, d *declared, env Environment) engine.Program {
	p := engine.Program{
		Name:             k.Name + "/" + o.Name(),
		Object:           k.shown(o, d),
		Whole:            d.whole,
		Workers:          env.Workers,
		Finalizer:        k.finalizer(o.Name()),
		GenerateSelector: d.generateSelector,
		Resync:           oftener(d.resync, env.Resync),
		LastApplied:      k.manner.lastApplied,
		Outline:          k.manner.outline,
		FailureReason:    k.manner.failureReason,
		IgnoreNamespaces: k.manner.ignoreNamespaces,
		Manager:          k.manager(o.Name(), env),
		Guard:            d.guard,
		Revisions:        engine.Revisions{FieldPaths: d.revisions, Namespace: env.Namespace},
	}
	if k.manner.decorates {
		p.Mark = plan.Mark{Key: k.manner.mark, Value: o.Name()}
	}
	return p
}

// oftener is the shorter of two periods; zero is none.
func oftener(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// shown is the controller as its hooks see it. Its status changes with every run, and
// would make news of each; Metacontroller shows an empty one.
func (k Kind) shown(o *object.Object, d *declared) json.RawMessage {
	if d.whole {
		return o.Whole()
	}
	var status []byte
	if k.Metacontroller() {
		status = []byte("{}")
	}
	bare, err := o.With(status, "status")
	if err != nil {
		return o.JSON() // What was parsed once is edited without an error.
	}
	return bare.JSON()
}
