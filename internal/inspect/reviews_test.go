package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission/patch"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
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
	patch := must.Get(json.Marshal(operations)).In(t)
	run := reviewRun("mutated", hook.ReviewRequest{Operation: hook.OperationCreate, Object: json.RawMessage(`{"spec":{"text":"` + text + `"}}`)}, &hook.ReviewResponse{JSONPatch: patch})
	run.Steps[0].Call.Received.ReviewPatch = patch
	b := NewHistory(HistoryOptions{}, noon)
	began := time.Now()
	b.Add(run)
	listed, detailed := b.Reviews("ac/pods", false)[0].Review(), b.Reviews("ac/pods", true)[0].Review()
	if len(listed.Fields) != 4 || !listed.MoreFields || len(detailed.Changes) != 50 || !detailed.MoreFields {
		t.Errorf("%d fields, %d changes", len(listed.Fields), len(detailed.Changes))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	run.Steps[0].Call = &record.Call{Sent: run.Steps[0].Call.Sent, Received: record.Response{ReviewPatch: json.RawMessage(`[{"op":"add","path":"/spec/` + strings.Repeat("p", 5000) + `"},{"op"`)}}
	whole := run.Render(true).Steps[0].Call.Review
	if len(whole.Fields) != 1 || len(whole.Fields[0]) > 253+3 || whole.MoreFields {
		t.Errorf("of a malformed patch: %d fields", len(whole.Fields))
	}
}

func reviewRun(outcome record.Outcome, r hook.ReviewRequest, v *hook.ReviewResponse) record.Run {
	return record.Run{
		Controller: "ac/pods", Object: rates.Ref("town", "eur"), Trigger: "create by anna", Outcome: outcome, Began: noon,
		Steps: []record.Step{{Call: &record.Call{Name: "check", Sent: record.Request{Review: &r}, Received: record.Response{Review: v}}}},
	}
}

const (
	oldRate = `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur"},"spec":{"text":"a","list":["x","y"]}}`
	newRate = `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur"},"spec":{"text":"b","list":["x","y"]}}`
)

// Fault U3: a mutation says which fields it changed, in every form of response.
func TestWebhookChanges(t *testing.T) {
	review := hook.ReviewRequest{Operation: hook.OperationUpdate, Object: json.RawMessage(newRate), OldObject: json.RawMessage(oldRate)}
	for name, c := range map[string]struct {
		response hook.ReviewResponse
		want     string
	}{
		"nothing":    {hook.ReviewResponse{}, ""},
		"an object":  {hook.ReviewResponse{Object: json.RawMessage(strings.Replace(newRate, `"b"`, `"c"`, 1))}, `spec.text "b" "c"`},
		"a patch":    {hook.ReviewResponse{Patch: json.RawMessage(`{"metadata":{"labels":{"a.b/c":"d"}},"spec":{"text":null}}`)}, `metadata.labels  {"a.b/c":"d"}|spec.text "b" `},
		"operations": {hook.ReviewResponse{JSONPatch: json.RawMessage(`[{"op":"test","path":"/spec/text","value":"b"},{"op":"replace","path":"/spec/list/1","value":"z"},{"op":"add","path":"/spec/list/-","value":1},{"op":"copy","from":"/spec/text","path":"/metadata/labels/a.b~1c"}]`)}, `spec.list[1] "y" "z"|spec.list[new]  1|metadata.labels["a.b/c"]  "b"`},
	} {
		b := NewHistory(HistoryOptions{}, noon)
		run := reviewRun("mutated", review, &c.response)
		run.Steps[0].Call.Received.ReviewPatch, _ = patch.For(&review, &c.response)
		b.Add(run)
		listed := b.Runs(rateRef("eur"), 0)[0]
		shown := must.Get(b.Run(listed.ID)).In(t)
		var got []string
		for _, change := range shown.Review().Changes {
			got = append(got, fmt.Sprintf("%s %s %s", change.Path, change.From, change.To))
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %s\nwant %s", name, strings.Join(got, "|"), c.want)
		}
		if requested := shown.Review().Requested; len(requested) != 1 || requested[0].Path != "spec.text" {
			t.Errorf("%s: requested %+v", name, requested)
		}
		if brief := listed.Steps[0].Call.Review; len(brief.Changes)+len(brief.Requested) != 0 {
			t.Errorf("%s: a list has fields: %+v", name, brief)
		}
	}
}

// Fault U3: why a review was denied is in lists too, and stays when requests are dropped.
func TestDenialsAreKept(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	large := json.RawMessage(strings.Replace(newRate, `"b"`, `"`+strings.Repeat("b", 3<<20)+`"`, 1))
	denial := &hook.ReviewResponse{Denial: &hook.Denial{Message: "no digest", Reason: "Invalid"}}
	b.Add(reviewRun("denied", hook.ReviewRequest{Operation: hook.OperationCreate, Object: large}, denial))
	listed := b.Runs(rateRef("eur"), 0)[0]
	run := must.Get(b.Run(listed.ID)).In(t)
	for _, each := range []Run{listed, run} {
		call := each.Steps[0].Call
		if r := call.Review; !call.Dropped || call.Request != nil || r == nil || !r.Denied || r.Operation != "create" || r.Message != "no digest" || r.Reason != "Invalid" {
			t.Errorf("%+v of %+v", call.Review, call)
		}
	}
	hidden := Redact(listed, func(object.Kind, string) bool { return false })
	if r := hidden.Steps[0].Call.Review; r.Message != "" || !r.Denied {
		t.Errorf("who may not read the object reads %+v", r)
	}
}

// What a webhook changed in a Secret is not shown, nor what its texts quote of it.
func TestReviewsOfSecretsAreMasked(t *testing.T) {
	secret := json.RawMessage(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"eur"},"data":{"a":"c2VzYW1l"},"stringData":{"b":"letmein"}}`)
	request := hook.ReviewRequest{Operation: hook.OperationCreate, Object: secret}
	mutated := reviewRun("mutated", request, &hook.ReviewResponse{Patch: json.RawMessage(`{"data":{"a":"c2VzYW1lMg=="}}`), Warnings: []string{"sesame is weak"}})
	mutated.Steps[0].Call.Received.ReviewPatch = json.RawMessage(`[{"op":"replace","path":"/data/a","value":"c2VzYW1lMg=="}]`)
	denied := reviewRun("denied", request, &hook.ReviewResponse{Denial: &hook.Denial{Message: "letmein is weak", Reason: "sesame"}})
	failed := reviewRun("failed", request, nil)
	failed.Err = failure.WithSource(failure.Hook, errors.New("cannot parse letmein"))
	failed.Steps[0].Call.Err = failed.Err
	for _, run := range []record.Run{mutated, denied, failed} {
		run.Object.Kind = object.KindOf(secrets)
		b := NewHistory(HistoryOptions{}, noon)
		b.Add(run)
		whole := must.Get(b.Run(b.Runs(object.Ref{Kind: object.Kind{Kind: "Secret"}, Namespace: "town", Name: "eur"}, 0)[0].ID)).In(t)
		text, err := json.Marshal([]any{whole, b.Reviews("ac/pods", true)})
		if err != nil || strings.Contains(string(text), "c2Vz") || strings.Contains(string(text), "sesame") || strings.Contains(string(text), "letmein") {
			t.Errorf("%s: %s, %v", run.Outcome, text, err)
		}
		if run.Outcome == "mutated" && !strings.Contains(string(text), `"path":"data.a"`) {
			t.Errorf("the changed field is missing: %s", text)
		}
	}
}
