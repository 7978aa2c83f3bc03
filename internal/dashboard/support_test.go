package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// hostile is text in names, labels and responses.
const hostile = "<script>alert(1)</script>\" onmouseover=\"x\u202e\u0007"

var noon = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func webKind() object.Kind {
	return object.Kind{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true}
}

func podRef(name string) object.Ref {
	return object.Ref{Kind: object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: name}
}

// checkInert finds content that the policy would block or that an attacker could have injected.
func checkInert(t *testing.T, html string) {
	t.Helper()
	lower := strings.ToLower(html)
	for _, bad := range []string{" style=", "<style", "<script>", "onmouseover=\"x", "href=\"javascript:", " onclick=", "\u202e", "#zgotmplz", "<no value>"} {
		if at := strings.Index(lower, strings.ToLower(bad)); at >= 0 {
			t.Errorf("the page has %q: …%s…", bad, html[max(0, at-80):min(len(html), at+80)])
		}
	}
}

// wantTexts finds the texts that a page lacks, and those that it has although a ! is before them.
func wantTexts(t *testing.T, html string, texts ...string) {
	t.Helper()
	plain := strings.Join(strings.Fields(html), " ")
	for _, text := range texts {
		if never, is := strings.CutPrefix(text, "!"); strings.Contains(plain, never) == is {
			t.Errorf("the page is to have %q", text)
		}
	}
	if t.Failed() {
		t.Log(plain)
	}
}

// newRun returns a run of a controller of webs.
func newRun(id uint64) inspect.Run {
	return inspect.Run{
		ID: id, Controller: "compositecontroller.setpoint.dev/webs", Process: "setpoint", Object: object.Ref{Kind: webKind(), Namespace: "shop", Name: "a"},
		Causes: []string{"the object changed"}, Began: noon, Took: 20 * time.Millisecond, Outcome: "synced",
	}
}
