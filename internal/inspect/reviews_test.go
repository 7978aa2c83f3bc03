package inspect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// reviewed is a review of the object eur by a webhook.
func reviewed(webhook, outcome string, review Review) Run {
	review.Operation, review.Denied = "update", outcome == ReviewDenied
	return Run{Controller: "ac/pods", Outcome: outcome, Object: rateRef("eur"), Steps: []Step{{Call: &Call{Name: webhook, Review: &review}}}}
}

// A denial explains the state of an object until its webhook allows a change.
func TestLastDenial(t *testing.T) {
	denied := reviewed("a", ReviewDenied, Review{})
	for name, c := range map[string]struct {
		runs []Run
		want bool
	}{
		"none":                   {nil, false},
		"the latest":             {[]Run{denied, reviewed("a", ReviewAllowed, Review{})}, true},
		"others allowed it":      {[]Run{reviewed("b", ReviewAllowed, Review{}), reviewed("c", ReviewMutated, Review{}), denied}, true},
		"another failed":         {[]Run{reviewed("a", ReviewFailed, Review{}), denied}, true},
		"a later dry run":        {[]Run{reviewed("a", ReviewAllowed, Review{DryRun: true}), denied}, true},
		"a reconcile":            {[]Run{{Outcome: "synced"}, denied}, true},
		"a denied dry run":       {[]Run{reviewed("a", ReviewDenied, Review{DryRun: true})}, false},
		"allowed since":          {[]Run{reviewed("a", ReviewAllowed, Review{}), denied}, false},
		"mutated since":          {[]Run{reviewed("b", ReviewAllowed, Review{}), reviewed("a", ReviewMutated, Review{}), denied}, false},
		"allowed before another": {[]Run{reviewed("b", ReviewDenied, Review{}), reviewed("a", ReviewAllowed, Review{}), denied}, true},
	} {
		if got := LastDenial(c.runs); (got != nil) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestReviewMessage(t *testing.T) {
	failed := reviewed("a", ReviewFailed, Review{})
	failed.Error = "no response"
	for want, run := range map[string]Run{
		"":                               reviewed("a", ReviewAllowed, Review{}),
		"no response":                    failed,
		"no tag":                         reviewed("a", ReviewDenied, Review{Message: "no tag", Reason: "Invalid"}),
		"Invalid":                        reviewed("a", ReviewDenied, Review{Reason: "Invalid"}),
		"no message":                     reviewed("a", ReviewDenied, Review{}),
		"warning: old; older":            reviewed("a", ReviewMutated, Review{Warnings: []string{"old", "older"}, Fields: []string{"a"}}),
		"changed spec.a, b and more":     reviewed("a", ReviewMutated, Review{Fields: []string{"spec.a", "b"}, MoreFields: true}),
		"changed metadata.labels[\"a\"]": reviewed("a", ReviewMutated, Review{Fields: []string{`metadata.labels["a"]`}}),
	} {
		if got := run.ReviewMessage(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A check for all namespaces replaces one for each. A reader of one namespace sees no others.
func TestVisibleReviews(t *testing.T) {
	in := func(namespace string) Run {
		run := reviewed("a", ReviewAllowed, Review{})
		run.Object.Namespace = namespace
		return run
	}
	runs := []Run{in("x"), in("y"), in("x"), in(""), {Outcome: "synced"}}
	for name, c := range map[string]struct {
		allowed       string
		seen, checked int
		hidden        bool
	}{"all": {"", 4, 1, false}, "one": {"x", 2, 3, true}, "none": {"-", 0, 3, true}} {
		checked := 0
		seen, hidden := VisibleReviews(runs, func(_ object.Kind, namespace string) bool { checked++; return namespace == c.allowed })
		if len(seen) != c.seen || hidden != c.hidden || checked != c.checked {
			t.Errorf("%s: %d seen, hidden %t, %d checks", name, len(seen), hidden, checked)
		}
	}
}

// A hook may send a patch of very many operations about a large object: what is shown of it is
// bounded, and so is the time.
func TestHugePatches(t *testing.T) {
	text := strings.Repeat("x", 1<<18)
	operations := make([]map[string]any, 10_000)
	for i := range operations {
		operations[i] = map[string]any{"op": "add", "path": "/spec/" + strings.Repeat("p", 5000*(i/9_999)), "value": i}
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	run := reviewRun("mutated", hook.ReviewRequest{Operation: hook.OperationCreate, Object: json.RawMessage(`{"spec":{"text":"` + text + `"}}`)}, &hook.ReviewResponse{JSONPatch: patch})
	run.Steps[0].Call.Response.ReviewPatch = patch
	b := NewHistory(HistoryOptions{}, noon)
	began := time.Now()
	b.Add(run)
	listed, detailed := b.Reviews("ac/pods", false)[0].Review(), b.Reviews("ac/pods", true)[0].Review()
	if len(listed.Fields) != maxReviewFields || !listed.MoreFields || len(detailed.Changes) != maxReviewChanges || !detailed.MoreFields {
		t.Errorf("%d fields, %d changes", len(listed.Fields), len(detailed.Changes))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	whole := (&renderer{rates, true}).reviewOf(&record.Call{Request: run.Steps[0].Call.Request, Response: record.Response{ReviewPatch: json.RawMessage(`[{"op":"add","path":"/spec/` + strings.Repeat("p", 5000) + `"},{"op"`)}})
	if len(whole.Fields) != 1 || len(whole.Fields[0]) > maxReviewName+3 || whole.MoreFields {
		t.Errorf("of a malformed patch: %d fields", len(whole.Fields))
	}
}
