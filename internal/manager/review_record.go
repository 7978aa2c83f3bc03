package manager

import (
	"strings"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// reviewRecord returns the record of a review as a run with one call.
func reviewRecord(o admission.ReviewRecord) record.Run {
	run := record.Run{
		Controller: o.Program, StartTime: o.Started, Duration: o.Duration, Outcome: record.Outcome(o.Result), Err: o.Err, Trigger: "a review",
		Steps: []record.Step{{Duration: o.Duration, Call: &record.Call{Name: o.Webhook, Err: o.Err}}},
	}
	review := o.Request
	if review == nil {
		return run
	}
	call := run.Steps[0].Call
	call.Request.Review, call.Response.Review = review, o.Response
	group, version, named := strings.Cut(review.APIVersion, "/")
	if !named {
		group, version = "", review.APIVersion
	}
	run.Resource = object.Resource{
		Group: group, Version: version, Plural: review.Resource, Kind: review.Kind, Namespaced: review.Namespace != "",
	}
	run.Key = queue.Key{Namespace: review.Namespace, Name: review.Name}
	run.Trigger = strings.ToLower(string(review.Operation)) + " by " + review.User.Name
	if review.DryRun {
		run.Trigger += ", as a dry run"
	}
	if !o.Authenticated {
		run.Trigger += ", as reported by the caller"
	}
	return run
}
