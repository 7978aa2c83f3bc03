package inspect

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/schedule"
)

var (
	pods        = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	deployments = object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}
)

func TestDescribe(t *testing.T) {
	web := must.Get(labels.Parse("app=web")).In(t)
	anonymous := hook.Func(nil)
	nightly := must.Get(schedule.Parse("0 3 * * *")).In(t)
	for _, c := range []struct {
		name string
		of   Programs
		want []string
	}{
		{"nothing", Programs{}, []string{}},
		{"a composite", Programs{Addresses: []string{"hooks.web:8080"}, Hooks: []composite.Program{{
			Parent: rates, GenerateSelector: true, Sync: anonymous, Finalize: anonymous, Finalizer: "setpoint.dev/x", Resync: time.Hour,
			Children: plan.Rules{{Resource: pods, Method: plan.Recreate}, {Resource: deployments, Method: plan.RollingInPlace, Strategy: plan.ServerSide, MaxUnavailable: 2}},
		}}}, []string{
			"Manages Rate (example.org/v1).",
			"Manages Pod children (Recreate), selected by a label with the object's UID.",
			"Manages Deployment children (RollingInPlace, by server-side apply, 2 at a time), selected by a label with the object's UID.",
			"Keeps deleted objects until the finalize hook reports that it is done (finalizer setpoint.dev/x).",
			"Resyncs each object every 1h.",
			"Calls its hooks: hooks.web:8080.",
		}},
		{"a decorator of a Go program", Programs{Hooks: []composite.Program{{
			Parent: deployments, Mark: plan.Mark{Key: "k", Value: "v"}, Selections: []composite.Selection{{Labels: web}}, Namespaces: []string{"town"}, Sync: anonymous,
			Children: plan.Rules{{Resource: pods}},
		}}}, []string{
			"Manages Deployment (apps/v1), with labels app=web, in town.",
			"Manages Pod children (OnDelete), selected by their owner and the annotation k: v.",
		}},
		{"handlers", Programs{Handlers: []handler.Program{{
			Rules: trigger.Rules{Resource: rates, Handlers: []trigger.Handler{
				{Name: "publish", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: [][]string{{"spec", "currency"}}, Every: time.Hour, Retries: 3},
				{Name: "nightly", On: []hook.Reason{hook.ReasonTimer}, Schedule: nightly},
				{Name: "watch", Daemon: func(context.Context, *hook.HandlerRequest, trigger.Live) error { return nil }},
				{Name: "end", On: []hook.Reason{hook.ReasonDelete}, When: func(_, _ *object.Object) bool { return true }, Retries: -1},
			}}, Labels: "a=b", Namespaces: []string{"x", "y"}, Owns: []object.Resource{pods, deployments},
			Writes: []permit.Write{{Resource: pods, Delete: true, Evict: true, Labels: "c=d", Namespace: "z"}},
		}}}, []string{
			"Handles Rate (example.org/v1), with labels a=b, in x, y.",
			"Handler publish: create, update of spec.currency, every 1h, up to 3 retries.",
			"Handler nightly: at 0 3 * * *.",
			"Daemon watch.",
			"Handler end: delete, if its condition holds, without retries.",
			"Owns what it applies of Pod, Deployment.",
			"May delete, evict Pod objects, with labels c=d, in namespace z.",
		}},
		{"reviews", Programs{Addresses: []string{"exec:./check", "h:443", "inline"}, Reviews: &admission.Program{Webhooks: []admission.Webhook{
			{Name: "defaults", Mutates: true, Ignore: true, Rules: []admission.Rule{{Group: "apps", Version: "v1", Resources: []string{"deployments"}, Operations: []hook.Operation{hook.OperationCreate, hook.OperationUpdate}}}},
			{Name: "check", Rules: []admission.Rule{{Version: "v1", Resources: []string{"pods", "pods/status"}, Operations: []hook.Operation{hook.OperationDelete}}}},
		}}}, []string{
			"Webhook defaults may mutate or deny: create, update of deployments (apps/v1). Failure policy Ignore.",
			"Webhook check may deny: delete of pods, pods/status (v1). Failure policy Fail.",
			"Calls its hooks: exec:./check, h:443, inline.",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Describe(c.of); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestCauses(t *testing.T) {
	child := queue.Cause{Kind: queue.ChildChanged, Detail: "Pod", Object: queue.Key{Namespace: "shop", Name: "a"}}
	many := []queue.Cause{}
	for name := range strings.FieldsSeq("a b c d e f g h i j") {
		many = append(many, queue.Cause{Kind: queue.ChildChanged, Detail: "Pod", Object: queue.Key{Name: name}})
	}
	for _, c := range []struct {
		run  record.Run
		want string
	}{
		{record.Run{}, ""},
		{record.Run{Trigger: "create by anna"}, "create by anna"},
		{record.Run{Queued: queue.NewCauses(child, queue.Cause{Kind: queue.ParentChanged})}, "the object changed|child Pod shop/a changed"},
		{record.Run{Queued: queue.NewCauses(queue.Cause{Kind: queue.Retrying, Detail: "3"}, queue.Cause{Kind: queue.Start})}, "initial list|retry 3"},
		// Fault U5: what a person did is not said last.
		{record.Run{Queued: queue.NewCauses(queue.Cause{Kind: queue.Retrying, Detail: "3"}, child, queue.Cause{Kind: queue.HookChanged})}, "hook changed|child Pod shop/a changed|retry 3"},
		// Fault U1: after a restart children are seen for the first time; none has changed.
		{record.Run{Queued: queue.NewCauses(append(slices.Clone(many), queue.Cause{Kind: queue.Start})...)}, "initial list"},
		{record.Run{Queued: queue.NewCauses(many...)}, "child Pod a changed|child Pod b changed|child Pod c changed|child Pod d changed|child Pod e changed|child Pod f changed|child Pod g changed|child Pod h changed|and 2 more"},
	} {
		if got := strings.Join(c.run.Render(false).Causes, "|"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestRoundDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", 30 * time.Second: "30s", 100 * time.Second: "1m40s", time.Hour + 10*time.Second: "1h0m10s",
	} {
		if got := roundDuration(d); got != want {
			t.Errorf("%d is %s, not %s", d, got, want)
		}
	}
}
