// Package compose is the loop: it watches parents and their children, asks the
// hook of a controller what should be, has a plan made of the answer and has it
// carried out, and stores the parent's status.
//
// A file holds one step of a run, named after it: open, claim, ask, decide,
// carry, status, conclude. What to write is decided by the room plan, writes
// are made by apply, objects come from store and turns from queue. The engine
// does not know where a controller was declared (compile does) nor who shows
// its health (host does).
package compose

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// Program is what a controller does about the objects of one kind, compiled:
// all that the engine needs to run it. A controller that cares for several kinds
// of parents is several programs.
type Program struct {
	// Name identifies the controller in logs and metrics.
	Name string
	// Object is the controller as its hooks see it.
	Object json.RawMessage
	// FullObjects shows hooks objects with metadata.managedFields.
	FullObjects bool
	// Parent is the kind of object the controller cares for.
	Parent object.Resource
	// Selections say which of them: those that match at least one; all if there
	// is none.
	Selections []Selection
	// Namespace is the one whose parents are looked at, and what lives beside them;
	// all if empty. What is not namespaced is looked at in any case.
	Namespace string
	// Fields is a selector of parents that the API server applies; "" selects all. It
	// leaves out of sight what matches no more, which nobody can finalize then.
	Fields string
	// Children are the kinds of object the parents have.
	Children plan.Rules
	// Sync answers what should be; nil if nothing is called before a parent is going away.
	Sync hook.Hook
	// Finalize answers what should be left of a parent that is going away; nil
	// if nobody is asked. Finalizer is the name under which a parent is kept
	// until the answer says that nothing is left. It is also given up where it
	// is found without need.
	Finalize  hook.Hook
	Finalizer string
	// FailureReason is that of the events that warn of failed runs; the reason of
	// the failure if empty.
	FailureReason string
	// IgnoreNamespaces is as in plan.Family.
	IgnoreNamespaces bool
	// Customize answers which related objects the hooks are shown; nil for none.
	Customize hook.Customizer
	// Reads are the kinds that Customize may name, as far as that is known: what a
	// hook will ask for, nobody knows who has not written it.
	Reads []object.Resource
	// Scope says what its rules may select.
	Scope related.Scope
	// GenerateSelector finds children by a label made of the parent's UID
	// instead of by the parent's spec.selector.
	GenerateSelector bool
	// Mark, if set, makes the controller a decorator: its children are those
	// with this annotation, and its replies may set labels and annotations of
	// the parent, and leave the status alone.
	Mark plan.Mark
	// Conditions says that the status of parents has a place for conditions, and that
	// they are to say there how they are doing.
	Conditions bool
	// StatusOwners are older controllers of the same parents: they store the status of
	// those that they select, and the status in responses about these is ignored.
	StatusOwners []StatusOwner
	// SyncOnStatusChange asks the hook also when only a parent's status changed.
	SyncOnStatusChange bool
	// Resync asks the hook about each parent this often; 0 never does.
	Resync time.Duration
	// LastApplied is the annotation that remembers what was applied, and
	// Outline leaves the values out of it.
	LastApplied string
	OmitValues  bool
	// Manager is the field manager of server-side apply.
	Manager string
	// Revisions says what a rolling update is about; unused where no rule of
	// Children is rolling.
	Revisions Revisions
	// DeletionLimit is the limit above which deletions are held; nil for none.
	DeletionLimit *plan.DeletionLimit
	// Workers is how many parents are worked on at once; 32 if zero.
	Workers int
}

func (p *Program) isDecorator() bool { return p.Mark != plan.Mark{} }

// Selection is a condition on parents; a nil selector matches everything.
type Selection struct{ Labels, Annotations labels.Selector }

// String is "labels app=web, annotations tier", as far as they are given.
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

// StatusOwner is a controller, by name, and which parents it selects: as in Program.
type StatusOwner struct {
	Name       string
	Selections []Selection
	Namespace  string
}

// Revisions says which changes of a parent are rolled out child by child.
type Revisions struct {
	// FieldPaths are the fields whose change makes a new revision, such as
	// {"spec", "template"}; the whole spec if there is none.
	FieldPaths [][]string
	// Namespace is where the revisions of cluster-scoped parents are kept.
	Namespace string
}

// Tools are what a controller works with.
type Tools struct {
	Store *cache.Cache
	// Resolve finds a kind that a customize hook names.
	Resolve  func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	Writer   *apply.Writer
	Observer Observer
	// DeletionGuard is the guard that the programs of one controller share; nil for one of
	// its own.
	DeletionGuard *DeletionGuard
	// Unrecorded says that nobody keeps accounts of runs: the Observer is told what
	// they were about, how long they took and how they ended, and no more.
	Unrecorded bool
	Log        *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Observer is told how runs went. Its methods must be quick.
type Observer interface {
	// Ran is given the account of each run.
	Ran(run record.Run)
	// Deleted is given the record of each deletion of a parent.
	Deleted(deletion record.Run)
	// Event is told what a parent's user should know.
	Event(parent *object.Object, event hook.Event)
}

// Types of events.
const (
	normal  = "Normal"
	warning = "Warning"
)

// Reasons of events on parents, and of the conditions Synced, Reconciling and Stalled.
const (
	// ReasonHookFailed: the hook is unreachable, timed out, or returned another status than 200.
	ReasonHookFailed = "HookFailed"
	// ReasonInvalidResponse: the response of the hook is invalid; the message has the field path.
	ReasonInvalidResponse = "InvalidReply"
	// ReasonWriteFailed: the API server refused a write; the message is the server's.
	ReasonWriteFailed = "WriteFailed"
	// ReasonInvalidParent: the parent has no spec.selector, or an invalid one.
	ReasonInvalidParent = "InvalidParent"
	// ReasonConflicting: the hook returns different responses to the same request, or each
	// response changes the next request. The message names the field.
	ReasonConflicting = "Unsettled"
	// ReasonInternalError: Setpoint has a defect; the log has the stack. Please report it.
	ReasonInternalError = "InternalError"
	// ReasonPaused: the annotation setpoint.dev/paused stops the controller for this object.
	ReasonPaused = "Paused"
	// ReasonResumed: the controller continues after a pause.
	ReasonResumed = "Resumed"
	// ReasonRequested: a user requested the reconcile by setpoint.dev/reconcile-at.
	ReasonRequested = "ReconcileRequested"
	// ReasonFlapping: another client or the API server keeps changing a child. The message names
	// the field and the field manager. Setpoint waits up to 30 s before it writes the child again.
	ReasonFlapping = "Flapping"
	// ReasonNamespaceIgnored: a child of a cluster-scoped kind has a namespace, which
	// Setpoint ignores.
	ReasonNamespaceIgnored = "NamespaceIgnored"
	// ReasonStatusIgnored: an older controller of the same parent stores the status.
	ReasonStatusIgnored = "StatusIgnored"
	// ReasonRolloutFailed: Setpoint cannot read or store the revisions of the parent.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonDeletionsHeld: the deletion guard holds deletions of children until a user confirms
	// them or the hook desires the children again.
	ReasonDeletionsHeld = "DeletionsHeld"
	// ReasonRelatedMissing: Setpoint cannot read related objects that the customize hook selects.
	ReasonRelatedMissing = "RelatedMissing"
)
