package setpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

func injectSidecar(context.Context, *Review[corev1.Pod]) error { return nil }

func judge(context.Context, *Review[corev1.Pod]) error { return nil }

// compiledReviews are the reviews of an app's controllers, which run in a namespace.
func compiledReviews(t *testing.T, app *App, o Options, home string) []*compile.Compiled {
	t.Helper()
	env := must.Get(sdk.Of(app).OfflineEnvironment(o.convert())).In(t)
	env.PodNamespace = home
	return must.Get(sdk.Of(app).CompileAll(t.Context(), env)).In(t)
}

func TestReviewsBecomeAProgram(t *testing.T) {
	app := New("app")
	pods := For[corev1.Pod](app, Labels("app=web,tier!=db"))
	pods.Validate("judge", judge)
	pods.Mutate("inject-sidecar", injectSidecar)
	pods.Validate("strict", judge, On(OperationDelete, OperationConnect), Subresources("status", "", "exec"), Labels("guarded"), NamespaceLabels("team in (b,a)"),
		Match("not-mine", "object.metadata.name != 'mine'"), FailurePolicy(Ignore), Timeout(30*time.Second), IncludeSystemNamespaces())
	pods.Mutate("again", judge, On(OperationCreate, OperationUpdate), FailurePolicy(Fail), Reinvoke())
	got := compiledReviews(t, app, Options{Namespaces: []string{"a", "b"}, Namespace: "apps"}, "home")

	const (
		in, notIn, exists = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists
	)
	of := []metav1.LabelSelectorRequirement{{Key: "app", Operator: in, Values: []string{"web"}}, {Key: "tier", Operator: notIn, Values: []string{"db"}}}
	within := metav1.LabelSelectorRequirement{Key: "kubernetes.io/metadata.name", Operator: in, Values: []string{"a", "b"}}
	rules := func(resources []string, operations ...hook.Operation) []admission.Rule {
		return []admission.Rule{{Version: "v1", Resources: resources, Operations: operations}}
	}
	base := admission.Webhook{
		Objects: &metav1.LabelSelector{MatchExpressions: of}, Namespaces: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{within}},
		ExemptNamespaces: []string{"kube-system", "kube-node-lease", "home"}, Timeout: 5 * time.Second,
	}
	inject, again, judged, strict := base, base, base, base
	inject.Name, inject.Mutates, inject.Ignore = "inject-sidecar", true, true
	inject.Rules = rules([]string{"pods"}, "CREATE")
	again.Name, again.Mutates, again.Reinvoke = "again", true, true
	again.Rules = rules([]string{"pods"}, "CREATE", "UPDATE")
	judged.Name = "judge"
	judged.Rules = rules([]string{"pods"}, "CREATE", "UPDATE")
	strict.Name, strict.Ignore, strict.Timeout, strict.ExemptNamespaces = "strict", true, 30*time.Second, nil
	strict.Rules = rules([]string{"pods/status", "pods", "pods/exec"}, "DELETE", "CONNECT")
	strict.Conditions = []admissionv1.MatchCondition{{Name: "not-mine", Expression: "object.metadata.name != 'mine'"}}
	strict.Objects = &metav1.LabelSelector{MatchExpressions: append([]metav1.LabelSelectorRequirement{{Key: "guarded", Operator: exists}}, of...)}
	strict.Namespaces = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: in, Values: []string{"a", "b"}}, within}}
	want := &compile.Compiled{Admission: &admission.Program{
		Name: "app/pod", Configuration: "app.pod.apps", Webhooks: []admission.Webhook{inject, again, judged, strict},
	}, AdmissionKinds: []object.Resource{{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true}}}
	// Nothing is watched, and so nothing but this is there.
	if diff := cmp.Diff([]*compile.Compiled{want}, got, cmpopts.IgnoreFields(admission.Webhook{}, "Admitter"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReviewsOfASubresourceOfAnotherKind(t *testing.T) {
	app := New("app")
	scales := For[autoscaling.Scale](app, Kind("apps/v1", "Deployment"), Name("scale"))
	scales.Validate("small", func(_ context.Context, r *Review[autoscaling.Scale]) error {
		if r.Object.Spec.Replicas > 3 {
			return Invalid("spec.replicas: at most 3")
		}
		return nil
	}, Subresources("scale"), On(OperationUpdate))
	program := compiledReviews(t, app, Options{Namespace: "apps"}, "")[0].Admission
	if got := fmt.Sprint(program.Webhooks[0].Rules); got != "[{apps v1 [deployments/scale] [UPDATE]}]" || program.Configuration != "app.scale.apps" {
		t.Errorf("got %s, %s", got, program.Configuration)
	}
	text := []byte(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":4}}`)
	v, err := program.Webhooks[0].Admitter.Admit(t.Context(), &hook.ReviewRequest{Operation: hook.OperationUpdate, Object: text, OldObject: text})
	if err != nil || v.Denial == nil || v.Denial.Reason != "Invalid" {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestReviewsNextToHandlers(t *testing.T) {
	app := New("app")
	maps := For[corev1.ConfigMap](app)
	maps.Handle("handle", handleMap).OnCreate()
	maps.Validate("check", func(context.Context, *Review[corev1.ConfigMap]) error { return nil })
	got := compiledReviews(t, app, Options{}, "")[0]
	if len(got.Handlers) != 1 || got.Admission == nil || got.Handlers[0].Name != got.Admission.Name {
		t.Errorf("got %+v", got)
	}
}

func TestExemptNamespaces(t *testing.T) {
	for home, want := range map[string]string{
		"home": `Validate "judge": limited to the namespaces kube-system, home, which admission webhooks exclude; use setpoint.IncludeSystemNamespaces`,
		"":     "",
	} {
		app := New("app")
		For[corev1.Pod](app, Namespaces("kube-system", "home")).Validate("judge", judge)
		env := must.Get(sdk.Of(app).OfflineEnvironment(sdk.Options{})).In(t)
		env.PodNamespace = home
		_, err := sdk.Of(app).CompileAll(t.Context(), env)
		got := ""
		if refusal, is := errors.AsType[*compile.Refusal](err); is {
			got = refusal.Error()
		}
		if got != want {
			t.Errorf("at home in %q: got %q, want %q", home, got, want)
		}
	}
}

func TestReviewProblems(t *testing.T) {
	type reviews = *Handlers[corev1.Pod]
	for name, c := range map[string]struct {
		options []KindOption
		wrong   func(reviews)
		want    []string
	}{
		"nil":             {nil, func(h reviews) { h.Mutate("nil", nil) }, []string{`Mutate "nil" of app/pod: the function is nil`}},
		"two of a name":   {nil, func(h reviews) { h.Validate("judge", judge); h.Mutate("judge", judge) }, []string{`two admission webhooks of app/pod are named "judge"`}},
		"operations":      {nil, func(h reviews) { h.Validate("judge", judge, On("PATCH")) }, []string{`On: unknown operation "PATCH"`}},
		"mutate deletion": {nil, func(h reviews) { h.Mutate("judge", judge, On(OperationDelete)) }, []string{`Mutate "judge" of app/pod: On: Mutate does not support DELETE`}},
		"timeouts": {nil, func(h reviews) {
			h.Validate("judge", judge, Timeout(time.Minute))
			h.Mutate("inject-sidecar", injectSidecar, Timeout(1500*time.Millisecond))
		}, []string{"Timeout(1m0s): must be whole seconds", "Timeout(1.5s): must"}},
		"policy":       {nil, func(h reviews) { h.Validate("judge", judge, FailurePolicy("Maybe")) }, []string{`FailurePolicy: must be Ignore or Fail, not "Maybe"`}},
		"reinvocation": {nil, func(h reviews) { h.Validate("judge", judge, Reinvoke()) }, []string{"Reinvoke: requires Mutate"}},
		"subresources": {nil, func(h reviews) { h.Validate("judge", judge, Subresources("a/b")) }, []string{`Subresources: "a/b" is not a subresource`}},
		"selectors":    {nil, func(h reviews) { h.Validate("judge", judge, Labels("a b"), NamespaceLabels("x in")) }, []string{"Labels: ", "NamespaceLabels: "}},
		"by size":      {nil, func(h reviews) { h.Validate("judge", judge, Labels("a>3")) }, []string{"webhooks do not support comparisons"}},
		"conditions":   {nil, func(h reviews) { h.Validate("judge", judge, Match("a b", "true"), Match("c", " "), Match("c", "true")) }, []string{`the name "a b" must be letters`, `Match("c"): the expression is empty`, `duplicate name "c"`}},
		"names":        {nil, func(h reviews) { h.Validate("a.b", judge) }, []string{`Validate "a.b" of app/pod: the name must be lower-case letters`}},
		"fields":       {[]KindOption{FieldSelector("status.phase=Running")}, func(h reviews) { h.Validate("judge", judge) }, []string{"FieldSelector: the API server does not select by fields"}},
		"writes":       {nil, func(h reviews) { h.Validate("judge", judge); h.Owns(&corev1.Secret{}) }, []string{"Owns, Applies, Deletes, Evicts and Reads require a handler"}},
		"our own":      {[]KindOption{Kind("setpoint.dev/v1alpha1", "AdmissionController")}, func(h reviews) { h.Validate("judge", judge) }, []string{"webhooks cannot review AdmissionController of setpoint.dev/v1alpha1"}},
	} {
		t.Run(name, func(t *testing.T) {
			app := New("app")
			c.wrong(For[corev1.Pod](app, c.options...))
			err := problemsOf(app, Options{})
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// labelled is a type that knows less than its objects have.
type labelled struct {
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec struct {
		Size int64 `json:"size,omitempty"`
	} `json:"spec,omitzero"`
}

func TestReviewResponses(t *testing.T) {
	const raw = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"size":1,"unknown":9007199254740993}}`
	for name, c := range map[string]struct {
		do   ReviewFunc[labelled]
		want hook.ReviewResponse
		err  string
	}{
		"nothing": {func(context.Context, *Review[labelled]) error { return nil }, hook.ReviewResponse{}, ""},
		"a change": {func(_ context.Context, r *Review[labelled]) error {
			r.Object.Spec.Size, r.Object.Labels = 2, map[string]string{"seen": "yes"}
			return nil
		}, hook.ReviewResponse{Object: json.RawMessage(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"labels":{"seen":"yes"},"name":"a"},"spec":{"size":2,"unknown":9007199254740993}}`)}, ""},
		"a refusal drops changes": {func(_ context.Context, r *Review[labelled]) error {
			r.Object.Spec.Size = 2
			r.Warn("%d", 1)
			return fmt.Errorf("so: %w", Deny("no %s", "way"))
		}, hook.ReviewResponse{Denial: &hook.Denial{Message: "so: no way"}, Warnings: []string{"1"}}, ""},
		"events": {func(_ context.Context, r *Review[labelled]) error {
			r.WarningEvent(nil, "Seen", "it")
			r.Event(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "Seen", "it")
			return nil
		}, hook.ReviewResponse{Events: []hook.ObjectEvent{
			{Event: hook.Event{Type: "Warning", Reason: "Seen", Message: "it"}, APIVersion: "example.com/v1", Kind: "Thing", Namespace: "shop", Name: "a"},
			{Event: hook.Event{Type: "Normal", Reason: "Seen", Message: "it"}, APIVersion: "v1", Kind: "Namespace", Name: "n"},
		}}, ""},
		"an event without an object": {func(_ context.Context, r *Review[labelled]) error {
			r.Event(&corev1.Namespace{}, "Seen", "it")
			return nil
		}, hook.ReviewResponse{}, "the Namespace has no name"},
		"no verdict": {func(context.Context, *Review[labelled]) error { return errors.New("cannot say") }, hook.ReviewResponse{}, "cannot say"},
		"taken away": {func(_ context.Context, r *Review[labelled]) error { r.Object = nil; return nil }, hook.ReviewResponse{}, "Object must not be nil"},
	} {
		t.Run(name, func(t *testing.T) {
			app := New("app")
			For[labelled](app, Kind("example.com/v1", "Thing")).Mutate("do", c.do)
			req := must.Get(sdk.Of(app).Reviewer("do")).In(t)
			got, err := req.Admit(t.Context(), &hook.ReviewRequest{
				Operation: hook.OperationCreate, APIVersion: "example.com/v1", Kind: "Thing", Namespace: "shop", Name: "a", Object: json.RawMessage(raw),
			})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || got != nil {
					t.Errorf("got %+v, %v; want %q", got, err, c.err)
				}
				return
			}
			if diff := cmp.Diff(&c.want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestPermissionsOfReviews(t *testing.T) {
	app := New("guard")
	For[corev1.Pod](app).Mutate("inject-sidecar", injectSidecar)
	For[labelled](app, Kind("example.com/v1", "Thing")).Validate("check", func(context.Context, *Review[labelled]) error { return nil })
	for name, c := range map[string]struct {
		o           Options
		want, never []string
	}{
		"by a Service": {Options{Namespace: "home"}, []string{
			"kind: ServiceAccount", "[mutatingwebhookconfigurations, validatingwebhookconfigurations]",
			"resourceNames: [guard-admission]", "kind: Role\n", "things.example.com]", "[events]",
		}, []string{"pods", "[things]"}},
		"by another Service": {Options{Namespace: "home", Admission: Admission{Service: "web"}}, []string{"[web-admission]"}, []string{"guard-admission"}},
		"by a URL":           {Options{Namespace: "home", Admission: Admission{URL: "https://x"}}, []string{"[leases]"}, []string{"[secrets]"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := must.Get(app.RBAC(t.Context(), "me", c.o)).In(t)
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			for _, never := range c.never {
				if strings.Contains(string(text), never) {
					t.Errorf("has %q:\n%s", never, text)
				}
			}
		})
	}
}
