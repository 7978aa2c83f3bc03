package model

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Fault U3: of a controller that does nothing but review, it could not be seen what it had
// reviewed, and why it had refused that.
func TestReviewsOfAController(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	review := func(name string, at time.Duration, outcome record.Outcome, denial *hook.Denial) {
		b.Add(record.Run{
			Controller: "policy", Resource: rates, Key: queue.Key{Namespace: "town", Name: name}, Trigger: "create by anna", StartTime: noon.Add(at), Outcome: outcome,
			Steps: []record.Step{{Call: &record.Call{
				Name: "images", Request: record.Request{Review: &hook.ReviewRequest{Object: json.RawMessage(`{}`)}},
				Response: record.Response{Review: &hook.ReviewResponse{Denial: denial}},
			}}},
		})
	}
	review("eur", 0, "denied", &hook.Denial{Message: "no tag"})
	review("usd", time.Second, "denied", &hook.Denial{Message: "image :latest is not pinned"})
	review("eur", 2*time.Second, "allowed", nil)
	page := b.ReviewsPage("policy", Query{})
	if !page.Reviews || page.Total != 2 || len(page.Objects) != 2 {
		t.Fatalf("got %+v", page)
	}
	if eur := page.Objects[0]; eur.Name != "eur" || eur.ReviewOutcome != "allowed" || eur.Error != "" || eur.Reviews != 2 {
		t.Errorf("the latest is %+v", eur)
	}
	if usd := page.Objects[1]; usd.Name != "usd" || usd.ReviewOutcome != "denied" || usd.Error != "image :latest is not pinned" {
		t.Errorf("the other is %+v", usd)
	}
	if some := b.ReviewsPage("policy", Query{Text: "us"}); some.Total != 2 || some.Matching != 1 || some.Objects[0].Name != "usd" {
		t.Errorf("of a name: %+v", some)
	}
	if none := b.ReviewsPage("other", Query{}); none.Total != 0 || !none.Reviews {
		t.Errorf("of another controller: %+v", none)
	}
}
