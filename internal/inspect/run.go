package inspect

import (
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

type (
	// Run is a run of the loop, rendered.
	Run = record.Run
	// Step is a step of a run.
	Step = record.Step
	// Call is a call of a hook or handler.
	Call = record.Call
	// Review is the review of an admission request.
	Review = record.Review
	// Action is a planned write.
	Action = record.Action
	// Write is a write, and what came of it.
	Write = record.Write
	// Change is a field that differs. A side is nil if the field is missing.
	Change = object.FieldChange
	// Code identifies the code that a call ran.
	Code = call.Code
	// Fault classifies an error.
	Fault = failure.Fault
	// Failure is a failed run.
	Failure = controller.LastError
	// Location is all objects of a kind in a namespace.
	Location = record.Location
)

// LastComparable returns the last call whose request is comparable to that of another call.
func LastComparable(steps []Step, like *Call) *Call {
	for _, step := range slices.Backward(steps) {
		if step.Call != nil && like.ComparableTo(step.Call) {
			return step.Call
		}
	}
	return nil
}

// Plan is the result of a dry run.
type Plan struct {
	// Text is the output of `setpoint plan`, Report its JSON.
	Text   string          `json:"text"`
	Report json.RawMessage `json:"report"`
	// Refs are all objects in the plan. Readers who may not read all of them must not see
	// the plan. Plurals may be empty.
	Refs []object.Ref `json:"objects"`
}
