package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
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
		b.Add(reviewRun("mutated", review, &c.response))
		listed := b.Runs(rateRef("eur"), 0)[0]
		run, err := b.Run(listed.ID)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, change := range run.Steps[0].Call.Review.Changes {
			got = append(got, fmt.Sprintf("%s %s %s", change.Path, change.From, change.To))
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %s\nwant %s", name, strings.Join(got, "|"), c.want)
		}
		if requested := run.Steps[0].Call.Review.Requested; len(requested) != 1 || requested[0].Path != "spec.text" {
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

// What a webhook changed in a Secret is not shown.
func TestReviewsOfSecretsAreMasked(t *testing.T) {
	secret := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"eur"},"data":{"a":"c2VzYW1l"}}`
	run := reviewRun("mutated", hook.ReviewRequest{Operation: hook.OperationCreate, Object: json.RawMessage(secret)}, &hook.ReviewResponse{Patch: json.RawMessage(`{"data":{"a":"c2VzYW1lMg=="}}`)})
	run.Resource = secrets
	b := NewHistory(HistoryOptions{}, noon)
	b.Add(run)
	ref := object.Ref{Kind: object.Kind{Kind: "Secret"}, Namespace: "town", Name: "eur"}
	whole, err := b.Run(b.Runs(ref, 0)[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(whole)
	if err != nil || strings.Contains(string(text), "c2Vz") || !strings.Contains(string(text), `"path":"data.a"`) {
		t.Errorf("%s, %v", text, err)
	}
}
