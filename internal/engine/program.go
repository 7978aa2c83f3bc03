// Package engine is the loop: it watches parents and their children, asks the
// hook of a controller what should be, has a plan made of the answer and has it
// carried out, and stores the parent's status.
//
// A file holds one step of a run, named after it: open, claim, ask, decide,
// carry, status, conclude. What to write is decided by the room plan, writes
// are made by apply, objects come from store and turns from queue. The engine
// does not know where a controller was declared (compile does) nor who shows
// its health (host does).
package engine

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// Program is one controller, compiled: all that the engine needs to run it.
type Program struct {
	// Name identifies the controller in logs and metrics.
	Name string
	// Object is the controller as its hooks see it.
	Object json.RawMessage
	// Parent is the kind of object the controller cares for.
	Parent object.Resource
	// ParentLabels leaves out parents that do not match; "" takes all.
	ParentLabels string
	// Children are the kinds of object the parents have.
	Children plan.Rules
	// Sync answers what should be.
	Sync hook.Hook
	// GenerateSelector finds children by a label made of the parent's UID
	// instead of by the parent's spec.selector.
	GenerateSelector bool
	// StatusWakes asks the hook also when only a parent's status changed.
	StatusWakes bool
	// Resync asks the hook about each parent this often; 0 never does.
	Resync time.Duration
	// LastApplied is the annotation that remembers what was applied, and
	// Outline leaves the values out of it.
	LastApplied string
	Outline     bool
	// Workers is how many parents are worked on at once; 32 if zero.
	Workers int
}

// Tools are what a controller works with.
type Tools struct {
	Store    *store.Store
	Writer   *apply.Writer
	Observer Observer
	Log      *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Observer is told how runs went. Its methods must be quick.
type Observer interface {
	// Ran is told of each run: its outcome, how long its key had waited and
	// how long it took.
	Ran(program string, outcome Outcome, waited, took time.Duration)
	// Warn is told what a parent's user should know.
	Warn(parent *object.Object, reason, message string)
}

// Outcome is how a run ended, for metrics.
type Outcome string

// The outcomes of a run.
const (
	// Skipped runs found nothing that the hook had not answered already.
	Skipped Outcome = "skipped"
	// Synced runs did all there was to do.
	Synced Outcome = "synced"
	// Postponed runs come again: something moved meanwhile, or the hook asked
	// for more time.
	Postponed Outcome = "postponed"
	// Failed runs come again after a backoff.
	Failed Outcome = "failed"
)

// Reasons of the events on a parent.
const (
	ReasonHookFailed   = "HookFailed"
	ReasonInvalidReply = "InvalidReply"
	ReasonWriteFailed  = "WriteFailed"
	ReasonInvalidSpec  = "InvalidParent"
	ReasonUnsettled    = "Unsettled"
	ReasonPanicked     = "InternalError"
)
