package explore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore"
)

// TestAnEditOfTheOnlySample has no object of its own, although a second one is explored.
func TestAnEditOfTheOnlySample(t *testing.T) {
	w := open(t, files+sample+header+"edits: [{name: two, patch: {spec: {size: 2}}}]\n")
	all, err := explore.Read(w)
	if err != nil {
		t.Fatal(err)
	}
	options, err := all[0].Options(t.Context(), w, explore.Bounds{Edits: 1})
	if err != nil || len(options.Passes) != 1 || options.Passes[0].Options.Edits[0].Object != things.Ref("default", "a").Identity() {
		t.Errorf("%+v, %v", options.Passes, err)
	}
}

// exploreSamples explores the controller of things by its samples. The hook gives each thing one ConfigMap.
func exploreSamples(t *testing.T, nameOf func(parent string) string) *explore.Report {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Parent struct{ Metadata struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprintf(w, `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}]}`, nameOf(request.Parent.Metadata.Name))
	}))
	t.Cleanup(server.Close)
	w := open(t, strings.Replace(files, "http://127.0.0.1:1", server.URL, 1)+sample)
	all, err := explore.Read(w)
	if err != nil {
		t.Fatal(err)
	}
	options, err := all[0].Options(t.Context(), w, explore.Bounds{Edits: 1, Time: 3 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return run(t, options)
}

// TestTwoOfEachKind shows that a second object is explored of which the files say nothing, and what the report says besides.
func TestTwoOfEachKind(t *testing.T) {
	report := exploreSamples(t, func(parent string) string { return "of-" + parent })
	wantViolations(t, report)
	wantText(t, report.Text(), "With Thing default/a-1 besides, at most 1 edit, without crashes and faults: ",
		"Edits of spec.size of Thing default/a never changed anything.", "Without invariants nothing is said of the way",
		"Not varied: the order of the writes of one response; what the hook at 127.0.0.1:")
	report = exploreSamples(t, func(string) string { return "fixed" })
	wantViolations(t, report, explore.Reconciled)
	wantText(t, report.Text(), "create ConfigMap default/fixed: it already exists and is owned by Thing a")
}
