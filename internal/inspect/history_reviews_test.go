package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// addReview adds a review of a Rate.
func addReview(b *History, name string, at time.Duration, outcome record.Outcome, r *hook.ReviewResponse) {
	request := &hook.ReviewRequest{Operation: hook.OperationCreate, Name: name, Object: json.RawMessage(`{"spec":{"text":"x"}}`), User: hook.User{Name: "anna", Groups: []string{"devs"}}}
	b.Add(record.Run{
		Controller: "policy", Resource: rates, Key: queue.Key{Namespace: "town", Name: name}, Trigger: "create by anna", StartTime: noon.Add(at), Outcome: outcome,
		Steps: []record.Step{{Call: &record.Call{
			Name: "images", Request: record.Request{Review: request},
			Response: record.Response{Review: r, ReviewPatch: json.RawMessage(`[{"op":"replace","path":"/spec/text","value":"y"}]`)},
		}}},
	})
}

// Fault U3: of a controller that does nothing but review, it could not be seen what it had
// reviewed, and why it had refused that.
func TestReviewsOfAController(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	addReview(b, "eur", 0, "denied", &hook.ReviewResponse{Denial: &hook.Denial{Message: "no tag"}})
	addReview(b, "usd", 2*time.Second, "denied", &hook.ReviewResponse{Denial: &hook.Denial{Message: "image :latest is not pinned"}})
	addReview(b, "eur", time.Second, "mutated", &hook.ReviewResponse{})
	b.Add(testRun("policy", "eur", 10))
	var got []string
	for _, run := range b.Reviews("policy", false) {
		review := run.Review()
		got = append(got, strings.Join([]string{run.Object.Name, run.Outcome, review.User, run.ReviewMessage()}, " "))
		if len(review.Groups)+len(review.Changes)+len(run.Steps[0].Call.Request) != 0 {
			t.Errorf("a list has details: %+v", review)
		}
	}
	want := []string{"usd denied anna image :latest is not pinned", "eur mutated anna changed spec.text", "eur denied anna no tag"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	detailed := b.Reviews("policy", true)[1]
	if review := detailed.Review(); len(review.Groups) != 1 || len(review.Changes) != 1 || string(review.Changes[0].From) != `"x"` || detailed.Steps[0].Call.Request != nil {
		t.Errorf("in detail %+v", detailed)
	}
	if none := b.Reviews("other", true); len(none) != 0 {
		t.Errorf("of another controller: %+v", none)
	}
}

// A busy webhook displaces neither denials nor the memory of others.
func TestDenialsOutliveAllowedReviews(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	denied := &hook.ReviewResponse{Denial: &hook.Denial{Message: "no tag"}}
	addReview(b, "eur", 0, "denied", denied)
	addReview(b, "", 0, "failed", nil)
	for i := range 3 * maxControllerRuns {
		addReview(b, []string{"", "eur", fmt.Sprint("o", i)}[i%3], time.Duration(i), "allowed", nil)
	}
	all := b.Reviews("policy", false)
	if len(all) != maxControllerRuns || all[len(all)-1].Outcome != "denied" || all[len(all)-2].Outcome != "failed" {
		t.Fatalf("%d reviews, the oldest are %+v", len(all), all[len(all)-2:])
	}
	for range maxControllerRuns + 1 {
		addReview(b, "", 0, "denied", denied)
	}
	if s := b.controllers["policy"]; s.allowed != 0 || len(s.entries) != maxControllerRuns || len(s.objects) != 1 {
		t.Errorf("%d allowed of %d reviews of %d objects after more denials", s.allowed, len(s.entries), len(s.objects))
	}
}

// A webhook that says much displaces neither its earlier reviews nor others from the memory.
func TestLongReviewTexts(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	addReview(b, "first", 0, "allowed", nil)
	long := strings.Repeat("€", 1<<20)
	for i := range 100 {
		addReview(b, fmt.Sprint("o", i), time.Second, "denied", &hook.ReviewResponse{Denial: &hook.Denial{Message: long, Reason: long}, Warnings: slices.Repeat([]string{long}, 100)})
	}
	all := b.Reviews("policy", false)
	if size := b.Stats().Bytes; len(all) != 101 || size > maxControllerBytes {
		t.Errorf("%d reviews of %d bytes", len(all), size)
	}
	if review := all[0].Review(); len(review.Message) > maxReviewText+3 || !strings.HasSuffix(review.Message, "€…") || len(review.Warnings) != maxReviewWarnings {
		t.Errorf("a message of %d bytes, %d warnings", len(review.Message), len(review.Warnings))
	}
}

// BenchmarkReview is a webhook of a busy controller: the history is full.
func BenchmarkReview(b *testing.B) {
	history := NewHistory(HistoryOptions{}, noon)
	pod := json.RawMessage(`{"metadata":{"name":"web"},"spec":{"text":"` + strings.Repeat("x", 5000) + `"}}`)
	add := func(i int) {
		request := &hook.ReviewRequest{Operation: hook.OperationCreate, Name: "web", Object: pod, User: hook.User{Name: "anna", Groups: []string{"devs"}}}
		history.Add(record.Run{
			Controller: "policy", Resource: rates, Key: queue.Key{Namespace: "town", Name: strconv.Itoa(i % 5000)}, Trigger: "create by anna", StartTime: noon, Outcome: "allowed",
			Steps: []record.Step{{Call: &record.Call{Name: "images", Request: record.Request{Review: request}, Response: record.Response{Review: &hook.ReviewResponse{}}}}},
		})
	}
	for i := range 2 * maxControllerRuns {
		add(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		add(i)
	}
}
