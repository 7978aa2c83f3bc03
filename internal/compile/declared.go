package compile

import (
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/controller/compose"
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
	// fullObjects is as in engine.Program.
	fullObjects   bool
	deletionLimit *plan.DeletionLimit
	// conditions says that parents are to say in conditions how they are doing.
	conditions bool
	notes      []string
}

// resourceRef is a resource as a user names it, and the field where.
type resourceRef struct{ field, apiVersion, plural string }

// index is the path of an item of a list.
func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// target is a rule for parents.
type target struct {
	resourceRef
	labels             *metav1.LabelSelector
	annotations        *annotationSelector
	syncOnStatusChange bool
}

// annotationSelector is that of either group.
type annotationSelector struct {
	match       map[string]string
	expressions []metav1.LabelSelectorRequirement
}

// child is a rule for children. The Resource of its rule is not known yet.
type child struct {
	resourceRef
	rule plan.Rule
}

// conventions is how the controllers of a group and kind leave their mark on objects.
type conventions struct {
	// isDecorator says that it is a DecoratorController.
	isDecorator bool
	// finalizerPrefix and managers lead the names of these; mark is the annotation
	// on attachments.
	finalizerPrefix, managerPrefix string
	mark                           string
	// lastApplied, failureReason and outline are as in engine.Program.
	lastApplied   string
	failureReason string
	// ignoreNamespaces is as in engine.Program.
	ignoreNamespaces bool
	omitValues       bool
}

// draft is what all programs of a controller have in common.
func (k Kind) draft(o *object.Object, d *declared, env Environment) compose.Program {
	p := compose.Program{
		Name:             k.Name + "/" + o.Name(),
		Object:           k.objectForHooks(o, d),
		FullObjects:      d.fullObjects,
		Workers:          env.Workers,
		Finalizer:        k.finalizer(o.Name()),
		GenerateSelector: d.generateSelector,
		Resync:           shorterPeriod(d.resync, env.Resync),
		LastApplied:      k.conventions.lastApplied,
		OmitValues:       k.conventions.omitValues,
		FailureReason:    k.conventions.failureReason,
		IgnoreNamespaces: k.conventions.ignoreNamespaces,
		Manager:          k.manager(o.Name(), env),
		DeletionLimit:    d.deletionLimit,
		Revisions:        compose.Revisions{FieldPaths: d.revisions, Namespace: env.Namespace},
	}
	if k.conventions.isDecorator {
		p.Mark = plan.Mark{Key: k.conventions.mark, Value: o.Name()}
	}
	return p
}

// shorterPeriod is the shorter of two periods; zero is none.
func shorterPeriod(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// objectForHooks is the controller as its hooks see it. Its status changes with every run, and
// would make news of each; Metacontroller shows an empty one.
func (k Kind) objectForHooks(o *object.Object, d *declared) json.RawMessage {
	if d.fullObjects {
		return o.JSONWithManagedFields()
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
