package router

import (
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// parent identifies a parent; another one may have its name later.
type parent struct {
	controller.ObjectID

	uid string
}

// Run is one run of a parent by one version.
type Run struct {
	*controller.Run

	Logic controller.Logic
	// Children returns the children, if the run has observed those of all kinds.
	Children func() (all []*object.Object, complete bool)
}

// End is the end of a run.
type End struct {
	Outcome record.Outcome
	Err     error
	Blame   Blame
	// Calls is how often the hook was called for the state of the parent.
	Calls int
}

// Blame is what a run failed because of, as far as can be known.
type Blame int

const (
	// Version is the version of the hooks.
	Version Blame = iota
	// VersionForGood is the version of the hooks, and retries do not help.
	VersionForGood
	// Parent is the parent: no version can reconcile it.
	Parent
	// DeletionGuard holds deletions of children.
	DeletionGuard
	// Elsewhere is another client or the API server, or the version that writes what they refuse.
	Elsewhere
)

// maxFlakes is how many failures in a row of a moved parent are no failure of the new version yet.
const maxFlakes = 2
