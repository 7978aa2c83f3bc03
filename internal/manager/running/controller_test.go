package running

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// testDependencies returns what the health of a controller needs.
func testDependencies() *Dependencies {
	return &Dependencies{
		InFlight: calls.NewInFlight(), Endpoints: calls.NewEndpoints(), Metrics: serving.NewMetrics(),
		Webhooks: serving.NewWebhooks(serving.WebhookOptions{Observer: noReviews{}}),
	}
}

// noReviews records no reviews.
type noReviews struct{}

func (noReviews) Reviewed(admission.ReviewRecord, queue.Key, bool) {}
func (noReviews) EventAt(string, hook.ObjectEvent)                 {}

// unreachable is an API server that does not respond.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// An operator's webhooks select kinds. One that is served while they are looked up, one after another, is a kind of
// the later webhook alone, until discovery has it.
func TestAnotherReviewIsNotEquivalent(t *testing.T) {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop"}
	webhooks := func(first ...admission.Rule) *compile.Compiled {
		admit := hook.AdmitterFunc(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) { return nil, nil })
		return &compile.Compiled{AdmissionKinds: []object.Resource{shops}, Admission: &admission.Program{Name: "checks", Webhooks: []admission.Webhook{
			{Name: "whole", Rules: first, Admitter: admit},
			{Name: "parts", Rules: []admission.Rule{{Group: "example.org", Version: "v1", Resources: []string{"shops/*"}}}, Admitter: admit},
		}}}
	}
	whole := admission.Rule{Group: "example.org", Version: "v1", Resources: []string{"shops"}}
	for _, c := range []struct {
		name              string
		running, compiled *compile.Compiled
		want              bool
	}{
		{"the same", webhooks(whole), webhooks(whole), true},
		{"a rule more", webhooks(), webhooks(whole), false},
		{"a rule less", webhooks(whole), webhooks(), false},
		{"no reviews", webhooks(whole), &compile.Compiled{AdmissionKinds: []object.Resource{shops}}, false},
		{"without reviews", &compile.Compiled{}, &compile.Compiled{}, true},
	} {
		if got := (&Controller{Compiled: c.running}).Equivalent(c.compiled); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Metrics of handlers have no object names and are deleted with the controller.
func TestMetricsOfHandlers(t *testing.T) {
	m := serving.NewMetrics()
	o := observer{Dependencies: testDependencies()}
	o.Recorders, o.Metrics, o.History = &recording.Recorders{}, m, inspect.NewHistory(inspect.HistoryOptions{}, time.Now())
	o.Ran(record.Run{Controller: "greeter", Outcome: record.Postponed, QueuedFor: time.Second, Took: time.Second})
	for _, err := range []error{
		nil, errors.New("no"), fmt.Errorf("handle: %w", &hook.RetryAfterError{Err: errors.New("later")}),
		&hook.TerminalError{Err: errors.New("never")}, fmt.Errorf("handle: %w", context.DeadlineExceeded),
	} {
		o.Handled("greeter", "greet", hook.ReasonCreate, time.Second, err)
	}
	const want = `setpoint_handler_calls_total error, setpoint_handler_calls_total ok, setpoint_handler_calls_total retry, ` +
		`setpoint_handler_calls_total terminal, setpoint_handler_calls_total timeout, setpoint_reconciles_total postponed`
	if got := outcomeCounters(t, m); got != want {
		t.Errorf("got %s", got)
	}
	m.DeleteController("greeter")
	if got := outcomeCounters(t, m); got != "" {
		t.Errorf("left %s", got)
	}
}

// outcomeCounters returns the counters with a value, by outcome.
func outcomeCounters(t *testing.T, m *serving.Metrics) string {
	t.Helper()
	text := must.Get(serving.Diagnostic(inspect.DiagnosticMetrics, m)).In(t)
	counter := regexp.MustCompile(`(?m)^(\w+_total)\{.*outcome="(\w+)"`)
	return strings.Join(lists.Map(counter.FindAllStringSubmatch(string(text), -1), func(found []string) string { return found[1] + " " + found[2] }), ", ")
}

// The health of a controller is that of all its programs.
func TestHealthOfSeveralPrograms(t *testing.T) {
	at := time.Unix(9, 0)
	c := &Controller{Dependencies: testDependencies(), Compiled: &compile.Compiled{}, Workers: []Worker{
		staticWorker{health: controller.Health{Synced: true, Parents: 1, Failing: 1, LastError: controller.LastError{Message: "first", Time: at}}},
		staticWorker{health: controller.Health{Synced: true, Parents: 2, Children: 3, HookFailing: 1, HookMessage: "no", WatchErrors: map[string]error{"pods": errors.New("x")},
			LastError: controller.LastError{Message: "second", Time: at.Add(1)}}},
	}}
	h := c.Health()
	if !h.Synced || h.Parents != 3 || h.Children != 3 || h.Failing != 1 || h.HookMessage != "no" || len(h.WatchErrors) != 1 || h.LastError.Message != "second" {
		t.Errorf("%+v", h)
	}
}

// staticWorker has a fixed health.
type staticWorker struct {
	Worker

	health controller.Health
}

func (s staticWorker) Health() controller.Health { return s.health }

// Hooks and handlers of one controller start and stop together.
func TestHooksAndHandlersAreOneController(t *testing.T) {
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: "http://server", Transport: unreachable{},
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})).In(t)
	d := testDependencies()
	d.Store, d.Permissions, d.Resolver, d.Log = cache.New(client, cache.Options{Log: slog.New(slog.DiscardHandler)}), &rbac.Access{}, &kinds.Resolver{Client: client}, slog.New(slog.DiscardHandler)
	t.Cleanup(d.Store.Close)
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true, Status: true, Custom: true}
	do := hook.HandlerFunc(func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return &hook.HandlerResponse{}, nil
	})
	sync := hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) { return &hook.Response{}, nil })
	c := New(d, &compile.Compiled{
		Programs: []composite.Program{{Name: "greeter", Parent: shops, Sync: sync, Workers: 1}},
		Handlers: []handler.Program{{Name: "greeter", Workers: 1, Rules: trigger.Rules{
			Resource: shops, Record: lasthandled.Location{Annotation: "example.org/handled"},
			Handlers: []trigger.Handler{{Name: "greet", On: []hook.Reason{hook.ReasonCreate}, Do: do}},
		}}},
	}, nil)
	if len(c.Workers) != 2 || !c.UsesCRD("shops.example.org") || c.UsesCRD("others.example.org") || fmt.Sprint(c.ParentKinds()) != "[example.org/v1/shops example.org/v1/shops]" {
		t.Errorf("%d programs of %v", len(c.Workers), c.ParentKinds())
	}
	again := &compile.Compiled{Programs: slices.Clone(c.Programs), Handlers: slices.Clone(c.Handlers)}
	if !c.Equivalent(again) {
		t.Error("not equivalent to itself")
	}
	again.Handlers[0].Resource.Status = false
	if c.Equivalent(again) {
		t.Error("equivalent to another kind")
	}
}

// Fault G7: after a restart of the hook, failed reviews of its previous process do not make a
// controller unready. The next review may be long in coming.
func TestReviewFailuresOfPreviousProcess(t *testing.T) {
	c := &Controller{Dependencies: testDependencies(), Compiled: &compile.Compiled{Admission: &admission.Program{Name: "p"}}}
	c.Webhooks.Set(queue.Key{Name: "p"}, c.Admission)
	c.Webhooks.Reviewed(admission.ReviewRecord{Program: "p", Webhook: "check", Err: errors.New("connection refused")})
	c.SyncAll(queue.Cause{Kind: queue.Resync})
	if got := c.Health(); got.HookFailing != 1 || got.HookMessage != "connection refused" {
		t.Errorf("%+v", got)
	}
	c.SyncAll(queue.Cause{Kind: queue.HookChanged})
	if got := c.Health(); got.HookFailing != 0 || got.HookMessage != "" || got.LastError.Message != "connection refused" {
		t.Errorf("%+v", got)
	}
}
