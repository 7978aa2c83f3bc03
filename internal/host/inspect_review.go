package host

import (
	"strings"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// reviewed is the account of a review: one question, and what was said to it.
func reviewed(o admission.Occasion) trace.Run {
	run := trace.Run{
		Program: o.Program, Began: o.Began, Took: o.Took, Outcome: trace.Outcome(o.Result), Err: o.Err, By: "a review",
		Steps: []trace.Step{{Took: o.Took, Ask: &trace.Ask{What: o.Webhook, Err: o.Err}}},
	}
	review := o.Review
	if review == nil {
		return run
	}
	ask := run.Steps[0].Ask
	ask.Question.Review, ask.Answer.Review = review, o.Verdict
	group, version, named := strings.Cut(review.APIVersion, "/")
	if !named {
		group, version = "", review.APIVersion
	}
	run.Resource = object.Resource{
		Group: group, Version: version, Plural: review.Resource, Kind: review.Kind, Namespaced: review.Namespace != "",
	}
	run.Key = queue.Key{Namespace: review.Namespace, Name: review.Name}
	run.By = strings.ToLower(string(review.Operation)) + " by " + review.User.Name
	if review.DryRun {
		run.By += ", as a dry run"
	}
	if !o.Authenticated {
		run.By += ", as reported by the caller"
	}
	return run
}
