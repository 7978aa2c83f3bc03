package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

func reviewRun(outcome trace.Outcome, r hook.Review, v *hook.Verdict) trace.Run {
	return trace.Run{
		Program: "ac/pods", Resource: rates, Key: queue.Key{Namespace: "town", Name: "eur"}, By: "create by anna", Outcome: outcome, Began: noon,
		Steps: []trace.Step{{Ask: &trace.Ask{What: "check", Question: trace.Question{Review: &r}, Answer: trace.Answer{Review: v}}}},
	}
}

const (
	oldRate = `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur"},"spec":{"text":"a","list":["x","y"]}}`
	newRate = `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur"},"spec":{"text":"b","list":["x","y"]}}`
)

// Fault U3: a mutation says which fields it changed, whichever way the webhook answered.
func TestWhatAWebhookChanged(t *testing.T) {
	review := hook.Review{Operation: hook.OperationUpdate, Object: json.RawMessage(newRate), Old: json.RawMessage(oldRate)}
	for name, c := range map[string]struct {
		verdict hook.Verdict
		want    string
	}{
		"nothing":    {hook.Verdict{}, ""},
		"an object":  {hook.Verdict{Object: json.RawMessage(strings.Replace(newRate, `"b"`, `"c"`, 1))}, `spec.text "b" "c"`},
		"a patch":    {hook.Verdict{Patch: json.RawMessage(`{"metadata":{"labels":{"a.b/c":"d"}},"spec":{"text":null}}`)}, `metadata.labels  {"a.b/c":"d"}|spec.text "b" `},
		"operations": {hook.Verdict{JSONPatch: json.RawMessage(`[{"op":"test","path":"/spec/text","value":"b"},{"op":"replace","path":"/spec/list/1","value":"z"},{"op":"add","path":"/spec/list/-","value":1},{"op":"copy","from":"/spec/text","path":"/metadata/labels/a.b~1c"}]`)}, `spec.list[1] "y" "z"|spec.list[new]  1|metadata.labels["a.b/c"]  "b"`},
	} {
		b := NewBook(BookOptions{}, noon)
		b.Note(reviewRun("mutated", review, &c.verdict))
		listed := b.Runs(rateRef("eur"), 0)[0]
		run, err := b.Run(listed.ID)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, change := range run.Steps[0].Ask.Review.Changes {
			got = append(got, fmt.Sprintf("%s %s %s", change.Path, change.From, change.To))
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %s\nwant %s", name, strings.Join(got, "|"), c.want)
		}
		if requested := run.Steps[0].Ask.Review.Requested; len(requested) != 1 || requested[0].Path != "spec.text" {
			t.Errorf("%s: requested %+v", name, requested)
		}
		if brief := listed.Steps[0].Ask.Review; len(brief.Changes)+len(brief.Requested) != 0 {
			t.Errorf("%s: a list has fields: %+v", name, brief)
		}
	}
}

// Fault U3: why a review was denied is in lists too, and stays when requests are dropped.
func TestDenialsAreKept(t *testing.T) {
	b := NewBook(BookOptions{}, noon)
	large := json.RawMessage(strings.Replace(newRate, `"b"`, `"`+strings.Repeat("b", 3<<20)+`"`, 1))
	denial := &hook.Verdict{Denial: &hook.Denial{Message: "no digest", Reason: "Invalid"}}
	b.Note(reviewRun("denied", hook.Review{Operation: hook.OperationCreate, Object: large}, denial))
	listed := b.Runs(rateRef("eur"), 0)[0]
	run, err := b.Run(listed.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []Run{listed, run} {
		ask := each.Steps[0].Ask
		if r := ask.Review; !ask.Dropped || ask.Request != nil || r == nil || !r.Denied || r.Operation != "create" || r.Message != "no digest" || r.Reason != "Invalid" {
			t.Errorf("%+v of %+v", ask.Review, ask)
		}
	}
	hidden := Redact(listed, func(Kind, string) bool { return false })
	if r := hidden.Steps[0].Ask.Review; r.Message != "" || !r.Denied {
		t.Errorf("who may not read the object reads %+v", r)
	}
}

// What a webhook changed in a Secret is not shown.
func TestReviewsOfSecretsAreMasked(t *testing.T) {
	secret := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"eur"},"data":{"a":"c2VzYW1l"}}`
	run := reviewRun("mutated", hook.Review{Operation: hook.OperationCreate, Object: json.RawMessage(secret)}, &hook.Verdict{Patch: json.RawMessage(`{"data":{"a":"c2VzYW1lMg=="}}`)})
	run.Resource = secrets
	b := NewBook(BookOptions{}, noon)
	b.Note(run)
	ref := Ref{Kind: Kind{Kind: "Secret"}, Namespace: "town", Name: "eur"}
	whole, err := b.Run(b.Runs(ref, 0)[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(whole)
	if err != nil || strings.Contains(string(text), "c2Vz") || !strings.Contains(string(text), `"path":"data.a"`) {
		t.Errorf("%s, %v", text, err)
	}
}
