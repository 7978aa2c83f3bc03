package record

import (
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Values returns the values of the Secrets in a run, which must not be in what leaves the process. Tokens of the key replace
// them, or a mask without one.
func (r *Run) Values(key *redact.Key) *redact.Values {
	values := redact.New(key, r.Key.Namespace, r.Key.Name)
	for i := range r.Steps {
		switch s := &r.Steps[i]; {
		case s.Call != nil:
			See(values, r.Resource, &s.Call.Request, &s.Call.Response)
		case s.Plan != nil:
			addPlan(values, s.Plan.Stages)
		case s.Write != nil:
			addSecrets(values, s.Write.Before, s.Write.After)
		}
	}
	values.Include(r.Secrets) // No step has what a handler read, or what the error of a run that failed early quotes.
	return values
}

// See adds the values of the Secrets in a request about an object of a kind, and in the response.
func See(values *redact.Values, about object.Resource, request *Request, response *Response) {
	secret := about.GroupKind().IsSecret()
	values.See(secret, func(visit func(json.RawMessage)) {
		if secret { // Parts of it are in fields that tell what they are.
			visit(request.JSON())
			visit(response.JSON(request.ControllerType))
		}
		request.EachObject(visit)
		response.EachObject(visit)
	})
}

// addSecrets adds the values of those objects that are Secrets.
func addSecrets(values *redact.Values, objects ...*object.Object) {
	for _, o := range objects {
		if o != nil && o.GroupKind().IsSecret() {
			values.See(false, func(visit func(json.RawMessage)) { visit(o.JSON()) })
		}
	}
}

// addPlan adds the values of the Secrets that a plan writes.
func addPlan(values *redact.Values, stages [][]plan.Action) {
	for _, stage := range stages {
		for i := range stage {
			addSecrets(values, stage[i].Before, stage[i].After)
		}
	}
}
