package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// apiServer serves discovery and lists of names by their paths. It refuses to list Secrets.
func apiServer(w http.ResponseWriter, r *http.Request) {
	resource := func(group, version, plural, kind, scope, short string) string {
		if short != "" {
			short = `"` + short + `"`
		}
		return `{"resource":"` + plural + `","singularResource":"` + strings.ToLower(kind) + `","responseKind":{"group":"` + group + `","version":"` + version + `","kind":"` + kind +
			`"},"scope":"` + scope + `","verbs":["get","list"],"shortNames":[` + short + `]}`
	}
	group := func(name, version string, resources ...string) string {
		return `{"metadata":{"name":"` + name + `"},"versions":[{"version":"` + version + `","resources":[` + strings.Join(resources, ",") + `]}]}`
	}
	list := func(names ...string) string {
		items := []map[string]any{}
		for _, name := range names {
			items = append(items, map[string]any{"metadata": map[string]string{"name": name}})
		}
		text, _ := json.Marshal(map[string]any{"items": items})
		return string(text)
	}
	const controllers = "/compositecontrollers"
	results := map[string]string{
		"/api": `{"items":[` + group("", "v1", resource("", "v1", "namespaces", "Namespace", "Cluster", "ns"),
			resource("", "v1", "pods", "Pod", "Namespaced", "po"), resource("", "v1", "events", "Event", "Namespaced", ""), resource("", "v1", "secrets", "Secret", "Namespaced", "")) + `]}`,
		"/apis": `{"items":[` + group("events.k8s.io", "v1", resource("events.k8s.io", "v1", "events", "Event", "Namespaced", "")) + "," +
			group("example.com", "v1", resource("example.com", "v1", "teams", "Team", "Namespaced", "")) + "," +
			group("setpoint.dev", "v1alpha1", resource("setpoint.dev", "v1alpha1", "compositecontrollers", "CompositeController", "Cluster", "spcc")) + "," +
			group("metacontroller.k8s.io", "v1alpha1", resource("metacontroller.k8s.io", "v1alpha1", "compositecontrollers", "CompositeController", "Cluster", "cctl")) + `]}`,
		"/api/v1/namespaces":                                     list("default", "shop", "shop-test"),
		"/api/v1/namespaces/shop/pods":                           list("web-0", "web-1", "db"),
		"/apis/example.com/v1/namespaces/shop/teams":             list("red", "rose", "blue"),
		"/apis/setpoint.dev/v1alpha1" + controllers:              list("teams", "both"),
		"/apis/metacontroller.k8s.io/v1alpha1" + controllers:     list("both"),
		"/apis/setpoint.dev/v1alpha1" + controllers + "/teams":   `{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"teams"},"spec":{"parentResource":{"apiVersion":"example.com/v1","resource":"teams"}}}`,
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": `{"status":{"allowed":true}}`,
	}
	w.Header().Set("Content-Type", "application/json")
	response, known := results[r.URL.Path]
	if !known {
		w.WriteHeader(http.StatusForbidden)
		response = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`
	}
	_, _ = w.Write([]byte(response))
}

// useClusterWith serves these responses by the ends of their paths, and as apiServer otherwise. None is not found.
func useClusterWith(t *testing.T, responses map[string]string) {
	t.Helper()
	clitest.UseCluster(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for path, response := range responses {
			if strings.HasSuffix(r.URL.Path, path) {
				w.Header().Set("Content-Type", "application/json")
				if response == "" {
					w.WriteHeader(http.StatusNotFound)
					response = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
				}
				_, _ = w.Write([]byte(response))
				return
			}
		}
		apiServer(w, r)
	}))
}

// completed are the words that a shell is given, and what else is written.
func completed(t *testing.T, args ...string) (words, stderr string) {
	t.Helper()
	code, out, stderr := invoke(t.Context(), append([]string{"__completeNoDesc"}, args...)...)
	if code != command.OK {
		t.Errorf("%v ends with %d: %s", args, code, stderr)
	}
	return strings.Join(strings.Fields(out), " "), stderr
}

// expectCompletion completes a line once more if the machine was so busy that the completion has given up.
func expectCompletion(t *testing.T, line, want string) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		began := time.Now()
		got, stderr := completed(t, strings.Split(line, " ")...)
		if got == want && !strings.Contains(stderr, "rror:") {
			return
		}
		if gaveUp := time.Since(began) >= client.CompleteLimit; !gaveUp || attempt == 10 {
			t.Errorf("%q: %q, want %q; %s", line, got, want, stderr)
			return
		}
	}
}

// Fault U12: why, tree, plan and -n complete kinds, names and namespaces of the cluster.
// :4 is for no files, and :6 for no space behind it, too.
func TestCompletion(t *testing.T) {
	clitest.UseCluster(t, http.HandlerFunc(apiServer))
	for line, want := range map[string]string{
		"why te":                      "teams/ :6",
		"why teams.e":                 "teams.example.com/ :6",
		"why ev":                      "events.events.k8s.io/ events/ :6",
		"tree c":                      "compositecontrollers.metacontroller.k8s.io/ compositecontrollers.setpoint.dev/ :6",
		"why team/r":                  "team/red team/rose :4",
		"why po/web":                  "po/web-0 po/web-1 :4",
		"tree pods -n shop web":       "web-0 web-1 :4",
		"why pods/ -n other":          ":4",
		"why -n other pods/":          ":4",
		"why secrets/":                ":4",
		"why nonsense/":               ":4",
		"why team/red b":              ":4",
		"why -n sho":                  "shop shop-test :4",
		"get --namespace d":           "default :4",
		"plan -n sho":                 "shop shop-test :4",
		"allow-deletions -n sho":      "shop shop-test :4",
		"tree -N d":                   "default :4",
		"tree --context ":             "a :4",
		"get --color al":              "always :4",
		"get -o j":                    "json jsonpath= :6",
		"plan -o y":                   "yaml :4",
		"get --state f":               "failing :4",
		"plan ":                       "compositecontroller.setpoint.dev/teams compositecontroller.setpoint.dev/both compositecontroller.metacontroller.k8s.io/both :4",
		"plan compositecontroller.s":  "compositecontroller.setpoint.dev/teams compositecontroller.setpoint.dev/both :4",
		"plan compositecontroller/t":  ":4", // It may be either.
		"plan spcc/t":                 "spcc/teams :4",
		"plan cctl/":                  "cctl/both :4",
		"plan spcc/teams ":            "blue red rose :4",
		"plan spcc/teams red r":       "rose :4",
		"plan spcc/teams team/r":      "team/red team/rose :4",
		"plan spcc/teams pod/":        ":4",
		"plan cc/gone ":               ":4",
		"rbac ":                       "compositecontroller.setpoint.dev/teams compositecontroller.setpoint.dev/both compositecontroller.metacontroller.k8s.io/both :4",
		"rbac spcc/":                  "spcc/teams spcc/both :4",
		"rbac spcc/teams spcc/":       "spcc/both :4",
		"rbac controller.ya":          ":0",
		"rbac --namespaces sho":       "shop shop-test :4",
		"plan -f controller.yaml red": ":4",
	} {
		expectCompletion(t, line, want)
	}
}

// objectSource is a process with objects, too.
type objectSource struct{ *clitest.FakeProcess }

func (*objectSource) Objects(context.Context, string, inspect.Query) (inspect.Page, error) {
	red, blue := inspect.ObjectState{Ref: clitest.Team(), HeldDeletions: 3}, inspect.ObjectState{Ref: clitest.Team()}
	blue.Name = "blue"
	return inspect.Page{Objects: []inspect.ObjectState{red, blue}, Total: 2, Matching: 2}, nil
}

// Fault U12: get names what runs, allow-deletions what holds deletions.
func TestCompletionOfRunningControllers(t *testing.T) {
	clitest.UseCluster(t, http.HandlerFunc(apiServer))
	kinds := []object.Kind{clitest.Team().Kind}
	source := &objectSource{clitest.WithControllers(clitest.NewFakeProcess("setpoint"), []inspect.Controller{
		{Name: "compositecontroller.setpoint.dev/teams", Kinds: kinds, HeldDeletions: 3}, {Name: "compositecontroller.setpoint.dev/other", Kinds: kinds},
	})}
	serveProcess(t, source)
	for line, want := range map[string]string{
		"get ":                   "reviews compositecontroller.setpoint.dev/teams compositecontroller.setpoint.dev/other :4",
		"get te":                 "teams :4",
		"get teams ":             clitest.Team().Name + " blue :4",
		"get teams b":            "blue :4",
		"get reviews ":           ":4",
		"get teams blue ":        clitest.Team().Name + " :4",
		"get teams team/b":       "team/blue :4",
		"get teams pod/b":        ":4",
		"get --process ":         "setpoint :4",
		"reconcile te":           "teams :4",
		"reconcile teams blue ":  clitest.Team().Name + " :4",
		"reconcile teams --st":   "--state :4",
		"allow-deletions ":       "compositecontroller.setpoint.dev/teams :4",
		"allow-deletions teams ": clitest.Team().Name + " :4",
	} {
		expectCompletion(t, line, want)
	}
}

// Fault U12: a shell does not wait for an API server that hangs, nor for one that is away.
func TestCompletionGivesUp(t *testing.T) {
	gone := make(chan struct{})
	clitest.UseCluster(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-gone:
		case <-r.Context().Done():
		}
	}))
	defer close(gone)
	for _, line := range []string{"why te", "why -n sho", "plan ", "get t"} {
		began := time.Now()
		if got, stderr := completed(t, strings.Split(line, " ")...); !strings.HasPrefix(got, ":") || strings.Contains(stderr, "rror:") {
			t.Errorf("%q: %q, %s", line, got, stderr)
		}
		if took := time.Since(began); took > 10*client.CompleteLimit {
			t.Errorf("%q took %s", line, took)
		}
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if got, stderr := completed(t, "why", "te"); got != ":4" || strings.Contains(stderr, "rror:") {
		t.Errorf("without a cluster: %q, %s", got, stderr)
	}
}
