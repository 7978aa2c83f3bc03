package get

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reviewSource plays a process with one admission controller.
type reviewSource struct {
	*clitest.FakeProcess
	reviews []inspect.Run
}

const policyName = "admissioncontroller.setpoint.dev/policy"

func (r *reviewSource) Controllers(context.Context) ([]inspect.Controller, error) {
	return []inspect.Controller{{Name: policyName, Process: "setpoint", Reviews: true, AllReplicas: true, Kinds: []object.Kind{clitest.Pod("").Kind}}}, nil
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
func newReviewSession(stdout, stderr *strings.Builder, f *processes.ReadFlags, namespace string) *processes.Session {
	other := clitest.Pod("b")
	other.Namespace = "other"
	secret := object.Ref{Kind: object.Kind{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}, Namespace: "shop", Name: "s"}
	failed := reviewRun(3, clitest.Pod(""), "failed", 6*time.Second, inspect.Review{Operation: "create", GenerateName: "web-", User: "bob"})
	failed.Error = "no response"
	source := &reviewSource{FakeProcess: clitest.NewFakeProcess("setpoint"), reviews: []inspect.Run{
		reviewRun(5, clitest.Pod("a"), "denied", 4*time.Second, inspect.Review{Operation: "update", User: "ann", Denied: true, Message: "no digest"}),
		reviewRun(4, secret, "denied", 5*time.Second, inspect.Review{Operation: "create", User: "eve", Denied: true}),
		failed,
		reviewRun(2, other, "mutated", 7*time.Second, inspect.Review{
			Operation: "create", User: "ann", DryRun: true, Fields: []string{"spec.x"}, Changes: []inspect.Change{{Path: "spec.x", To: json.RawMessage("1")}},
		}),
		reviewRun(1, clitest.Pod("a"), "allowed", 8*time.Second, inspect.Review{Operation: "create", User: "ann", Warnings: []string{"slow"}}),
	}}
	return &processes.Session{
		Invocation: &command.Invocation{Stdout: stdout, Stderr: stderr}, ReadFlags: f, Target: manager.Cluster{Namespace: namespace},
		Sources: []inspect.Source{source}, Timeouts: inspect.NewTimeouts(time.Minute),
		Client: &client.Client{AccessReviewer: clitest.AllowedVerbs{"list pods in ", "list pods in shop", "get pods in shop", "get pods in other"}},
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
		"wide": {list: reviewLister{everywhere: true, filter: inspect.ReviewFilter{Operation: "create", User: "ann", Text: "spec"}}, namespace: "shop", output: output.AsWide, stdout: `
NAMESPACE   AGE   CONTROLLER                                WEBHOOK   OPERATION          OBJECT   RESULT    USER   DURATION   CHANGES           MESSAGE
other       7s    admissioncontroller.setpoint.dev/policy   digests   create (dry run)   pod/b    mutated   ann    2ms        spec.x set to 1   changed spec.x
`, stderr: hidden},
		"names": {list: reviewLister{filter: inspect.ReviewFilter{ObjectName: "b"}, everywhere: true}, namespace: "shop", output: output.AsName, stdout: "\npod/b\n", stderr: hidden},
		// Whether a hidden object was reviewed cannot be learned by its name.
		"a hidden object":     {list: reviewLister{everywhere: true, filter: inspect.ReviewFilter{ObjectName: "s"}}, namespace: "shop", stderr: hidden + "No matching reviews found.\n"},
		"an unknown object":   {list: reviewLister{everywhere: true, filter: inspect.ReviewFilter{ObjectName: "t"}}, namespace: "shop", stderr: hidden + "No matching reviews found.\n"},
		"an empty namespace":  {namespace: "empty", stderr: "No matching reviews found in namespace empty; -A lists those of all namespaces.\n"},
		"JSON without a user": {list: reviewLister{filter: inspect.ReviewFilter{User: "absent"}}, namespace: "shop", output: output.AsJSON, stdout: "\n{\n  \"items\": []\n}\n", stderr: hidden},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // The ages are those of now.
				var stdout, stderr strings.Builder
				flags := newGetFlags()
				if c.output != "" {
					must.Succeed(t, flags.Output.Set(c.output))
				}
				c.list.Session = newReviewSession(&stdout, &stderr, &flags.ReadFlags, c.namespace)
				must.Succeed(t, c.list.showAll(t.Context(), &output.Table{}))
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
		l := reviewLister{controllerArg: controllerArg, Session: newReviewSession(&stdout, &stderr, &flags.ReadFlags, "shop")}
		l.Sources[0].(*reviewSource).Info = inspect.Process{LeaderElection: true, IsLeader: true}
		standby := &reviewSource{FakeProcess: clitest.NewFakeProcess("setpoint-7"), reviews: []inspect.Run{
			reviewRun(5, clitest.Pod("z"), "denied", time.Second, inspect.Review{Operation: "update", User: "zoe", Denied: true}),
		}}
		standby.Info, standby.reviews[0].Process = inspect.Process{LeaderElection: true}, standby.Name()
		l.Sources = append(l.Sources, standby)
		must.Succeed(t, l.showAll(t.Context(), &output.Table{}))
		if got := stdout.String(); strings.Count(got, "pod/z") != 1 || strings.Count(got, "pod/a") != 2 {
			t.Errorf("of %q:\n%s%s", controllerArg, got, stderr.String())
		}
	}
}

// `get CONTROLLER` of an admission controller lists its reviews.
func TestGetAdmissionController(t *testing.T) {
	var stdout, stderr strings.Builder
	flags := newGetFlags()
	flags.Everywhere, flags.Replicas = true, true
	g := objectGetter{Managed: processes.Managed{Session: newReviewSession(&stdout, &stderr, &flags.ReadFlags, "shop"), Flags: &flags.Selection, Name: "b"}, controllerArg: "policy"}
	must.Succeed(t, g.SelectController(t.Context(), "policy"))
	for range 2 {
		must.Succeed(t, g.showAll(t.Context(), &output.Table{}))
	}
	if strings.Count(stdout.String(), "pod/b") != 2 || strings.Contains(stdout.String(), "pod/a") || strings.Count(stderr.String(), "warning") != 1 {
		t.Errorf("got\n%s%s", stdout.String(), stderr.String())
	}
}

// What -A does not show, it is no help for.
func TestGetNone(t *testing.T) {
	var stderr strings.Builder
	flags := newGetFlags()
	g := processes.Managed{Session: &processes.Session{Invocation: &command.Invocation{Stderr: &stderr}, ReadFlags: &flags.ReadFlags, Target: manager.Cluster{Namespace: "shop"}}, Flags: &flags.Selection}
	g.Selected = inspect.Controller{Name: "teams", Kinds: []object.Kind{clitest.Team().Kind}}
	g.WarnNone(8)
	g.Flags.Everywhere = true
	g.WarnNone(8)
	const want = "teams has no matching objects in namespace shop. It manages 8 objects in total; use -A for all namespaces.\n" +
		"teams has no matching objects in any namespace. It manages 8 objects in total.\n"
	if stderr.String() != want {
		t.Errorf("told %s", stderr.String())
	}
}
