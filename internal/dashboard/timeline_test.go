package dashboard

import (
	"bytes"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestStoryPages(t *testing.T) {
	page := StoryPage{Version: "v1", Lanes: []string{"Users", "Setpoint"}, Stories: []Story{{
		Name: "sizes", Property: "Settles", Violation: "<it> never rests",
		Ways: []StoryWay{{Title: "Timeline", Steps: []StoryStep{
			{Number: 1, Lane: "Setpoint", Text: "Setpoint: create <Pod>.", Repeats: true, Changes: []StoryChange{{Object: "Pod a", What: "changed", Fields: []object.FieldChange{
				{Path: "spec.size", From: []byte("1"), To: []byte("2")},
			}}}, Objects: []StoryObject{{Name: "Pod a", YAML: "kind: Pod\n"}}},
			{Number: 2, Lane: "Users", Text: "A user edits."},
		}}},
	}}}
	var b bytes.Buffer
	must.Succeed(t, page.Write(&b))
	for _, want := range []string{
		"<title>sizes · Setpoint</title>", "Settles: &lt;it&gt; never rests", `class="story-step story-lane-2"`, `class="story-step story-lane-1"`,
		"1. Setpoint: create &lt;Pod&gt;.", "These steps repeat for ever:", "<strong>changed</strong> Pod a", `<del dir="ltr">1</del>`, "kind: Pod", "--ground: light-dark(",
		"Nothing changes in the API server.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, other := range []string{"<script", "href=\"/", "src="} {
		if strings.Contains(b.String(), other) {
			t.Errorf("the page has %s", other)
		}
	}
}
