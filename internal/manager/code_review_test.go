package manager

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// A selector of which the webhook had no part, or only the last one, let it review controllers of other Setpoints.
func TestOnlyOwnControllersAreReviewed(t *testing.T) {
	for text, want := range map[string]string{
		"": "<none>", "team=web": "team in (web)", "team!=web": "team notin (web)", "a=1,a=2": "a in (1),a in (2)",
		"team in (web,db),!old": "!old,team in (db,web)",
	} {
		program := must.Get((&Manager{options: Options{Selector: text}}).codeReview()).In(t)
		got := "<none>"
		if objects := program.Webhooks[0].Objects; objects != nil {
			got = must.Get(metav1.LabelSelectorAsSelector(objects)).In(t).String()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if _, err := (&Manager{options: Options{Selector: "size>3"}}).codeReview(); err == nil {
		t.Error("a comparison is ignored")
	}
}
