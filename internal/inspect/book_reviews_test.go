package inspect

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Fault U3: of a controller that does nothing but review, it could not be seen what it had
// reviewed, and why it had refused that.
func TestReviewsOfAController(t *testing.T) {
	b := NewBook(BookOptions{}, noon)
	review := func(name string, at time.Duration, outcome trace.Outcome, denial *hook.Denial) {
		b.Note(trace.Run{
			Program: "policy", Resource: rates, Key: queue.Key{Namespace: "town", Name: name}, By: "create by anna", Began: noon.Add(at), Outcome: outcome,
			Steps: []trace.Step{{Ask: &trace.Ask{
				What: "images", Question: trace.Question{Review: &hook.Review{Object: json.RawMessage(`{}`)}},
				Answer: trace.Answer{Review: &hook.Verdict{Denial: denial}},
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
	if eur := page.Objects[0]; eur.Name != "eur" || eur.Reviewed != "allowed" || eur.Error != "" || eur.Reviews != 2 {
		t.Errorf("the latest is %+v", eur)
	}
	if usd := page.Objects[1]; usd.Name != "usd" || usd.Reviewed != "denied" || usd.Error != "image :latest is not pinned" {
		t.Errorf("the other is %+v", usd)
	}
	if some := b.ReviewsPage("policy", Query{Text: "us"}); some.Total != 2 || some.Matching != 1 || some.Objects[0].Name != "usd" {
		t.Errorf("of a name: %+v", some)
	}
	if none := b.ReviewsPage("other", Query{}); none.Total != 0 || !none.Reviews {
		t.Errorf("of another controller: %+v", none)
	}
}
