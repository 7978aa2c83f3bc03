package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission/patch"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func reviewRun(outcome record.Outcome, r hook.ReviewRequest, v *hook.ReviewResponse) record.Run {
	return record.Run{
		Controller: "ac/pods", Resource: rates, Key: queue.Key{Namespace: "town", Name: "eur"}, Trigger: "create by anna", Outcome: outcome, StartTime: noon,
		Steps: []record.Step{{Call: &record.Call{Name: "check", Request: record.Request{Review: &r}, Response: record.Response{Review: v}}}},
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
		run.Steps[0].Call.Response.ReviewPatch, _ = patch.For(&review, &c.response)
		b.Add(run)
		listed := b.Runs(rateRef("eur"), 0)[0]
		shown, err := b.Run(listed.ID)
		if err != nil {
			t.Fatal(err)
		}
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
	run, err := b.Run(listed.ID)
	if err != nil {
		t.Fatal(err)
	}
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
	mutated.Steps[0].Call.Response.ReviewPatch = json.RawMessage(`[{"op":"replace","path":"/data/a","value":"c2VzYW1lMg=="}]`)
	denied := reviewRun("denied", request, &hook.ReviewResponse{Denial: &hook.Denial{Message: "letmein is weak", Reason: "sesame"}})
	failed := reviewRun("failed", request, nil)
	failed.Err = failure.WithSource(failure.Hook, errors.New("cannot parse letmein"))
	failed.Steps[0].Call.Err = failed.Err
	for _, run := range []record.Run{mutated, denied, failed} {
		run.Resource = secrets
		b := NewHistory(HistoryOptions{}, noon)
		b.Add(run)
		whole, err := b.Run(b.Runs(object.Ref{Kind: object.Kind{Kind: "Secret"}, Namespace: "town", Name: "eur"}, 0)[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{whole, b.Reviews("ac/pods", true)})
		if err != nil || strings.Contains(string(text), "c2Vz") || strings.Contains(string(text), "sesame") || strings.Contains(string(text), "letmein") {
			t.Errorf("%s: %s, %v", run.Outcome, text, err)
		}
		if run.Outcome == "mutated" && !strings.Contains(string(text), `"path":"data.a"`) {
			t.Errorf("the changed field is missing: %s", text)
		}
	}
}
