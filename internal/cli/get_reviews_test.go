package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reviewSource plays a process with one admission controller.
type reviewSource struct {
	*fakeProcess
	reviews []inspect.Run
}

const policyName = "admissioncontroller.setpoint.dev/policy"

func (r *reviewSource) Controllers(context.Context) ([]inspect.Controller, error) {
	return []inspect.Controller{{Name: policyName, Process: "setpoint", Reviews: true, AllReplicas: true, Kinds: []object.Kind{pod("").Kind}}}, nil
}

func (r *reviewSource) Reviews(context.Context, string, bool) ([]inspect.Run, error) {
	return r.reviews, nil
}

// reviewRun is a review of an object.
func reviewRun(id uint64, ref object.Ref, outcome string, age time.Duration, review inspect.Review) inspect.Run {
	return inspect.Run{
		ID: id, Controller: policyName, Process: "setpoint", Object: ref, Outcome: outcome, Began: time.Now().Add(-age), Took: 2 * time.Millisecond,
		Steps: []inspect.Step{{Call: &inspect.Call{Name: "digests", Review: &review}}},
	}
}

// newReviewSession reviews pods in two namespaces, and a Secret that the user may not read.
func newReviewSession(stdout, stderr *strings.Builder, f *readFlags, namespace string) *session {
	other := pod("b")
	other.Namespace = "other"
	secret := object.Ref{Kind: object.Kind{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}, Namespace: "shop", Name: "s"}
	failed := reviewRun(3, pod(""), "failed", 6*time.Second, inspect.Review{Operation: "create", GenerateName: "web-", User: "bob"})
	failed.Error = "no response"
	source := &reviewSource{fakeProcess: newFakeProcess("setpoint"), reviews: []inspect.Run{
		reviewRun(5, pod("a"), "denied", 4*time.Second, inspect.Review{Operation: "update", User: "ann", Denied: true, Message: "no digest"}),
		reviewRun(4, secret, "denied", 5*time.Second, inspect.Review{Operation: "create", User: "eve", Denied: true}),
		failed,
		reviewRun(2, other, "mutated", 7*time.Second, inspect.Review{
			Operation: "create", User: "ann", DryRun: true, Fields: []string{"spec.x"}, Changes: []inspect.Change{{Path: "spec.x", To: json.RawMessage("1")}},
		}),
		reviewRun(1, pod("a"), "allowed", 8*time.Second, inspect.Review{Operation: "create", User: "ann", Warnings: []string{"slow"}}),
	}}
	return &session{
		program: &program{stdout: stdout, stderr: stderr}, readFlags: f, target: manager.Cluster{Namespace: namespace},
		sources: []inspect.Source{source}, timeouts: inspect.NewTimeouts(time.Minute),
		permissions: &permissions{accessReviewer: allowedVerbs{"list pods in ", "list pods in shop", "get pods in shop", "get pods in other"}},
	}
}

// Fault U3: `get` of an admission controller said that it had no objects in all
// namespaces, managed nine, and that -A shows those.
func TestGetReviews(t *testing.T) {
	const hidden = "warning: reviews of objects that you cannot get are hidden\n"
	for name, c := range map[string]struct {
		list           reviewLister
		namespace      string
		output         string
		stdout, stderr string
	}{
		"a namespace": {namespace: "shop", stdout: `
AGE   CONTROLLER   OPERATION   OBJECT      RESULT    USER   MESSAGE
8s    policy       create      pod/a       allowed   ann    warning: slow
6s    policy       create      pod/web-*   failed    bob    no response
4s    policy       update      pod/a       denied    ann    no digest
`, stderr: hidden},
		"denied ones of one controller": {list: reviewLister{controllerArg: "policy", everywhere: true, filter: inspect.ReviewFilter{Outcomes: []string{"denied"}}}, namespace: "shop", stdout: `
NAMESPACE   AGE   OPERATION   OBJECT   RESULT   USER   MESSAGE
shop        4s    update      pod/a    denied   ann    no digest
`, stderr: hidden},
		"wide": {list: reviewLister{everywhere: true, filter: inspect.ReviewFilter{Operation: "create", User: "ann", Text: "spec"}}, namespace: "shop", output: asWide, stdout: `
NAMESPACE   AGE   CONTROLLER                                WEBHOOK   OPERATION          OBJECT   RESULT    USER   DURATION   CHANGES           MESSAGE
other       7s    admissioncontroller.setpoint.dev/policy   digests   create (dry run)   pod/b    mutated   ann    2ms        spec.x set to 1   changed spec.x
`, stderr: hidden},
		"names": {list: reviewLister{filter: inspect.ReviewFilter{ObjectName: "b"}, everywhere: true}, namespace: "shop", output: asName, stdout: "\npod/b\n", stderr: hidden},
		// Whether a hidden object was reviewed cannot be learned by its name.
		"a hidden object":     {list: reviewLister{everywhere: true, filter: inspect.ReviewFilter{ObjectName: "s"}}, namespace: "shop", stderr: hidden + "No matching reviews found.\n"},
		"an unknown object":   {list: reviewLister{everywhere: true, filter: inspect.ReviewFilter{ObjectName: "t"}}, namespace: "shop", stderr: hidden + "No matching reviews found.\n"},
		"an empty namespace":  {namespace: "empty", stderr: "No matching reviews found in namespace empty; -A lists those of all namespaces.\n"},
		"JSON without a user": {list: reviewLister{filter: inspect.ReviewFilter{User: "absent"}}, namespace: "shop", output: asJSON, stdout: "\n{\n  \"items\": []\n}\n", stderr: hidden},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // The ages are those of now.
				var stdout, stderr strings.Builder
				flags := newGetFlags()
				if c.output != "" {
					if err := flags.output.Set(c.output); err != nil {
						t.Fatal(err)
					}
				}
				c.list.session = newReviewSession(&stdout, &stderr, &flags.readFlags, c.namespace)
				if err := c.list.showAll(t.Context(), &table{}); err != nil {
					t.Fatal(err)
				}
				if stdout.String() != strings.TrimPrefix(c.stdout, "\n") || stderr.String() != c.stderr {
					t.Errorf("got\n%s%s", stdout.String(), stderr.String())
				}
			})
		})
	}
}

// The reviews of a standby are listed beside those of the leader.
func TestReviewsOfAllReplicas(t *testing.T) {
	for _, controllerArg := range []string{"", "policy"} {
		var stdout, stderr strings.Builder
		flags := newGetFlags()
		l := reviewLister{controllerArg: controllerArg, session: newReviewSession(&stdout, &stderr, &flags.readFlags, "shop")}
		l.sources[0].(*reviewSource).info = inspect.Process{LeaderElection: true, IsLeader: true}
		standby := &reviewSource{fakeProcess: newFakeProcess("setpoint-7"), reviews: []inspect.Run{
			reviewRun(5, pod("z"), "denied", time.Second, inspect.Review{Operation: "update", User: "zoe", Denied: true}),
		}}
		standby.info, standby.reviews[0].Process = inspect.Process{LeaderElection: true}, standby.name
		l.sources = append(l.sources, standby)
		if err := l.showAll(t.Context(), &table{}); err != nil {
			t.Fatal(err)
		}
		if got := stdout.String(); strings.Count(got, "pod/z") != 1 || strings.Count(got, "pod/a") != 2 {
			t.Errorf("of %q:\n%s%s", controllerArg, got, stderr.String())
		}
	}
}

// `get CONTROLLER` of an admission controller lists its reviews.
func TestGetAdmissionController(t *testing.T) {
	var stdout, stderr strings.Builder
	flags := newGetFlags()
	flags.everywhere, flags.replicas = true, true
	g := objectGetter{session: newReviewSession(&stdout, &stderr, &flags.readFlags, "shop"), flags: flags, controllerArg: "policy", name: "b"}
	var err error
	if g.selected, g.source, err = g.controller(t.Context(), "policy", "b"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := g.showAll(t.Context(), &table{}); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(stdout.String(), "pod/b") != 2 || strings.Contains(stdout.String(), "pod/a") || strings.Count(stderr.String(), "warning") != 1 {
		t.Errorf("got\n%s%s", stdout.String(), stderr.String())
	}
}

// What -A does not show, it is no help for.
func TestGetNone(t *testing.T) {
	var stderr strings.Builder
	flags := newGetFlags()
	g := objectGetter{session: &session{program: &program{stderr: &stderr}, readFlags: &flags.readFlags, target: manager.Cluster{Namespace: "shop"}}, flags: flags}
	g.selected = inspect.Controller{Name: "teams", Kinds: []object.Kind{team().Kind}}
	g.warnNone(8)
	g.flags.everywhere = true
	g.warnNone(8)
	const want = "teams has no matching objects in namespace shop. It manages 8 objects in total; use -A for all namespaces.\n" +
		"teams has no matching objects in any namespace. It manages 8 objects in total.\n"
	if stderr.String() != want {
		t.Errorf("told %s", stderr.String())
	}
}
