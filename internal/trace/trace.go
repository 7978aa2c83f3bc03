// Package trace says what one run of a controller did: what brought it about, whom
// it asked, what was planned, what was written and how all of that ended.
//
// Here live the account of a run and of its steps, and nothing that makes, keeps or
// shows one: engine and react make accounts, and hand each to whoever observes them;
// the room inspect keeps some and puts them into words. An account shares what the
// run had in its hands (objects of the cache, requests, replies) and copies none of
// it, so that making one costs next to nothing.
package trace

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Outcome is how a run ended.
type Outcome string

// The outcomes, as metrics name them.
const (
	// Skipped runs found nothing that was not dealt with already.
	Skipped Outcome = "skipped"
	// Synced runs did all there was to do.
	Synced Outcome = "synced"
	// Postponed runs come again: something moved meanwhile, or whoever was asked
	// asked for more time.
	Postponed Outcome = "postponed"
	// Failed runs come again after a backoff, or when their input changes.
	Failed Outcome = "failed"
)

// Run is the account of one run. Whoever gets one may keep it, and changes nothing.
type Run struct {
	// Program is the name of the controller, Object what the run was about.
	Program  string
	Resource object.Resource
	Object   *object.Object
	// Causes are what brought it about, Attempt how many runs had failed before.
	Causes  queue.Causes
	Attempt int
	// Began is when, Waited how long the object had waited for it, Took how long
	// it took.
	Began        time.Time
	Waited, Took time.Duration
	Outcome      Outcome
	// Err is what it failed with, or was postponed for; nil otherwise.
	Err error
	// Next is when it is known to come again; zero where only something new brings
	// that about.
	Next  time.Time
	Steps []Step
}

// Step is one thing that a run did. Exactly one of its parts is set.
type Step struct {
	// At is how far into the run it began, Took how long it took.
	At, Took time.Duration
	Ask      *Ask
	Plan     *plan.Plan
	Write    *Write
	Event    *hook.Event
}

// Ask is a question to a hook or to a handler.
type Ask struct {
	// What is "sync", "finalize" or "customize", or the name of a handler; Reason is
	// what a handler was told of.
	What   string
	Reason hook.Reason
	// What was asked and answered: a Request and a Response, or a Notice and an
	// Answer, or those of customize. Answers are nil after an error.
	Request          *hook.Request
	Response         *hook.Response
	Notice           *hook.Notice
	Answer           *hook.Answer
	CustomizeRequest *hook.CustomizeRequest
	Customized       *hook.CustomizeResponse
	Err              error
}

// Write is a request to the API server that was to change something.
type Write struct {
	apply.Result
	// Part is "status" where the status alone was written.
	Part string
}
