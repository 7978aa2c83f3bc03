// Package composite is the reconcile loop of composites and decorators. It watches parents and children, calls the
// hooks, plans the children from the response, writes them and stores the parent's status.
//
// Each file has one step of a run or one kind of state. Package plan decides what to write and package apply writes it.
// Compile makes the programs from the API objects, and the manager runs the controllers and reports their health.
package composite

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
	"github.com/setpoint-dev/setpoint/internal/selector"
)

// Program is a compiled controller of one kind of parent. A controller with several parent kinds has several programs.
type Program struct {
	// Name identifies the controller in logs and metrics.
	Name string
	// Object is the controller as its hooks get it.
	Object json.RawMessage
	// FullObjects includes metadata.managedFields in the objects that hooks get.
	FullObjects bool
	// Parent is the kind of the parents.
	Parent object.Resource
	// Selections select parents: a parent has to match one of them. None selects all.
	Selections []Selection
	// Namespace limits the parents, and the children beside them, to a namespace; empty for all. Cluster-scoped kinds
	// are not limited. Scope has the namespaces of cluster-scoped parents' children.
	Namespace string
	// Fields is a field selector for the API server; empty for all. Parents that stop matching cannot be finalized.
	Fields string
	// Children are the rules for the kinds of children.
	Children plan.Rules
	// Sync returns the desired state; nil if only Finalize is called.
	Sync hook.Hook
	// Finalize returns the desired state of a parent that is being deleted; may be nil. Finalizer stays on the parent
	// until a response says that it is finalized. It is removed from parents that do not need it.
	Finalize  hook.Hook
	Finalizer string
	// Version names Sync, Finalize and Customize; empty if the controller has no rollouts.
	Version string
	// Previous is the version for the parents that have not moved yet; nil if all have.
	Previous *controller.Logic
	// FailureReason is the event reason of failed runs; empty for the reason of the error.
	FailureReason string
	// Lenient is as in plan.Planner.
	Lenient bool
	// Customize selects the related objects of a request; may be nil.
	Customize hook.Customizer
	// Reads are the kinds that Customize may select, if they are known.
	Reads []object.Resource
	// Scope limits what Customize may select.
	Scope related.Scope
	// Namespaces are those of the parents, of which each has a program of its own, or of the children of a
	// cluster-scoped parent; empty for all.
	Namespaces []string
	// GenerateSelector selects children by a label with the parent's UID instead of by spec.selector.
	GenerateSelector bool
	// Mark makes it a decorator: its children have this annotation, and responses set labels and annotations.
	Mark plan.Mark
	// Conditions means that the status schema of the parents has conditions, where the controller sets its own.
	Conditions bool
	// StatusOwners are controllers of a higher precedence that store the status of the parents they select. The
	// status in responses for these parents is ignored.
	StatusOwners []StatusOwner
	// SyncOnStatusChange calls the hook also when only the parent's status changed.
	SyncOnStatusChange bool
	// Resync is the period of hook calls without changes; 0 for none.
	Resync time.Duration
	// LastApplied is the annotation with the last applied configuration. OmitValues stores only field names in it.
	LastApplied string
	OmitValues  bool
	// Manager is the field manager of server-side apply.
	Manager string
	// Revisions says which changes of a parent are rolled out child by child. It needs no Controller and Parents, and is
	// unused if no rule in Children is rolling.
	Revisions rolling.Revisions
	// DeletionLimit is the limit above which deletions are held; nil for none.
	DeletionLimit *plan.DeletionLimit
	// Account is as which ServiceAccount the controller writes, and hooks may read; zero for Setpoint's rights.
	Account identity.Account
	// Workers is the maximum of concurrent reconciles; 32 if zero.
	Workers int
}

func (p *Program) isDecorator() bool { return p.Mark != plan.Mark{} }

// Selection selects parents. A nil selector matches everything.
type Selection struct{ Labels, Annotations labels.Selector }

// String returns the selectors, such as "labels app=web, annotations tier".
func (s Selection) String() string {
	var parts []string
	if s.Labels != nil {
		parts = append(parts, "labels "+s.Labels.String())
	}
	if s.Annotations != nil {
		parts = append(parts, "annotations "+s.Annotations.String())
	}
	return strings.Join(parts, ", ")
}

// StatusOwner is a controller and the parents it selects, as in Program.
type StatusOwner struct {
	Name       string
	Selections []Selection
	Namespace  string
}

// Dependencies are what a controller needs.
type Dependencies struct {
	controller.Dependencies

	// Assignment and Reported are shared by the programs of one controller; nil for their own.
	Assignment *router.Assignment
	Reported   *router.Reported
	// DeletionGuard is shared by the programs of one controller; nil for its own.
	DeletionGuard *guard.Guard
}

// statusOwner returns the name of the older controller that stores the status of a parent; empty if this one does.
func (p *Program) statusOwner(parent *object.Object) string {
	for _, o := range p.StatusOwners {
		inside := o.Namespace == "" || parent.Namespace() == "" || parent.Namespace() == o.Namespace
		if inside && anySelects(o.Selections, parent) {
			return o.Name
		}
	}
	return ""
}

func hasStatus(response *hook.Response) bool {
	var members map[string]json.RawMessage
	unreadable := response.Status != nil && json.Unmarshal(response.Status, &members) != nil
	return unreadable || len(members) > 0 || len(response.Conditions) > 0 || response.Message != ""
}

// phaseOf returns the phase of a parent, whose version finalizes or not.
func (p *Program) phaseOf(parent *object.Object, finalizes bool) controller.Phase {
	selected, held := anySelects(p.Selections, parent), parent.HasFinalizer(p.Finalizer)
	phase := controller.PhaseOf(parent, selected, held)
	switch {
	case phase == controller.PhaseIgnored || phase == controller.PhasePaused:
		return phase
	case !finalizes && held:
		return controller.PhaseReleasing
	case held && (parent.Deleting() || !selected):
		return controller.PhaseFinalizing
	case parent.Deleting() && finalizes:
		// It is finalized, or was deleted before it had the finalizer.
		return controller.PhaseIgnored
	}
	return controller.PhaseManaged
}

// HookFor returns the hook that is called for an object of the kind, sync or finalize, or says why none is.
func (p *Program) HookFor(parent *object.Object) (hook, skipped string) {
	if p.Namespace != "" && parent.Namespace() != "" && parent.Namespace() != p.Namespace {
		return "", "not in a namespace of this controller"
	}
	phase := p.phaseOf(parent, p.Finalize != nil)
	if skipped = phase.SkipReason(); skipped == "" && phase == controller.PhaseManaged && p.Sync == nil {
		skipped = "not finalized yet, and the controller has no sync hook"
	}
	return hookName(phase), skipped
}

// hookName returns "sync" or "finalize".
func hookName(phase controller.Phase) string {
	if phase == controller.PhaseFinalizing {
		return "finalize"
	}
	return "sync"
}

// anySelects reports whether a parent matches one of the selections, or there are none.
func anySelects(all []Selection, parent *object.Object) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(s Selection) bool { return s.Matches(parent) })
}

// Matches reports whether the selection selects a parent.
func (s Selection) Matches(parent *object.Object) bool {
	if s.Labels != nil && !s.Labels.Matches(parent.Labels()) {
		return false
	}
	if s.Annotations == nil {
		return true
	}
	// They are parsed each time, because few controllers select by annotation.
	var annotations labels.Set
	_ = json.Unmarshal(parent.Field("metadata", "annotations"), &annotations) // An object without annotations has no field.
	return s.Annotations.Matches(annotations)
}

// Finalizes reports whether parents get the finalizer, in either version.
func (p *Program) Finalizes() bool {
	return p.Finalize != nil || p.Previous != nil && p.Previous.Finalize != nil
}

// Customizes reports whether requests have related objects, in either version.
func (p *Program) Customizes() bool {
	return p.Customize != nil || p.Previous != nil && p.Previous.Customize != nil
}

// controllerType is that of requests and responses.
func (p *Program) controllerType() hook.ControllerType {
	if p.isDecorator() {
		return hook.Decorator
	}
	return hook.Composite
}

func (p *Program) customizeRequest(parent *object.Object) *hook.CustomizeRequest {
	return &hook.CustomizeRequest{Controller: p.Object, Parent: p.objectJSON(parent)}
}

func (p *Program) objectJSON(o *object.Object) []byte {
	if p.FullObjects {
		return o.JSONWithManagedFields()
	}
	return o.JSON()
}

// Planner returns what plans the children of a parent. With an error, it has no selector.
func (p *Program) Planner(parent *object.Object) (planner plan.Planner, err error) {
	planner = plan.Planner{
		Parent: parent, Namespaced: p.Parent.Namespaced, Namespaces: p.Namespaces, Rules: p.Children,
		GenerateSelector: p.GenerateSelector, LastApplied: p.LastApplied, OmitValues: p.OmitValues, Manager: p.Manager,
		Mark: p.Mark, Lenient: p.Lenient,
	}
	if !p.isDecorator() {
		planner.Selector, err = selector.Of(parent, p.GenerateSelector)
	}
	return planner, err
}

// NamespacesOf returns the namespaces in which the program watches and writes a kind, "" for all.
// The children of a namespaced parent are in its namespace.
func (p *Program) NamespacesOf(resource object.Resource) []string {
	if p.Parent.Namespaced {
		return resource.In([]string{p.Namespace})
	}
	return resource.In(p.Namespaces)
}

// RevisionNamespace returns the namespace in which the program watches and writes revisions, "" for all. Those of
// cluster-scoped parents may be in an earlier namespace of Setpoint, unless the program is limited to namespaces.
func (p *Program) RevisionNamespace() string {
	if !p.Parent.Namespaced && len(p.Namespaces) > 0 {
		return p.Revisions.Namespace
	}
	return p.Namespace
}

// serverSelector returns a label selector for the API server; empty if parents that stop matching have to be finalized.
func (p *Program) serverSelector() string {
	if len(p.Selections) != 1 || p.Selections[0].Labels == nil || p.Finalizes() {
		return ""
	}
	return p.Selections[0].Labels.String()
}
