package hooktest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
)

// CustomizerOpener is an Opener for customizers.
type CustomizerOpener func(t *testing.T, logic hook.Customizer) hook.Customizer

// RunCustomizer runs the customizer suite. It covers what it shares with Run only
// briefly.
func RunCustomizer(t *testing.T, open CustomizerOpener) {
	runAll(t, open, []check[CustomizerOpener]{
		{"request arrives unchanged", customizeRequestArrives},
		{"rules arrive unchanged", rulesArrive},
		{"failure is an error that says why", customizeFailureIsError},
		{"RetryAfterError is preserved", customizeRetryLater},
		{"cancelled call returns", cancelledCustomize},
	})
}

func newCustomizeRequest() *hook.CustomizeRequest {
	q := newRequest("tom")
	return &hook.CustomizeRequest{Controller: q.Controller, Parent: q.Parent}
}

func customizeRequestArrives(t *testing.T, open CustomizerOpener) {
	var got *hook.CustomizeRequest
	c := open(t, hook.CustomizerFunc(func(_ context.Context, req *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		got = req
		return &hook.CustomizeResponse{}, nil
	}))
	req := newCustomizeRequest()
	if resp, err := c.Customize(t.Context(), req); err != nil || resp == nil {
		t.Fatalf("got response %v and error %v", resp, err)
	}
	if diff := diffText(got, newCustomizeRequest()); diff != "" {
		t.Errorf("request differs: %s", diff)
	}
	if diff := diffText(req, newCustomizeRequest()); diff != "" {
		t.Errorf("the call modified the request: %s", diff)
	}
}

func rulesArrive(t *testing.T, open CustomizerOpener) {
	selector := &metav1.LabelSelector{
		MatchLabels:      map[string]string{"example.com/a": "", "b": "1"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "c", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y"}}},
	}
	for name, want := range map[string][]hook.RelatedRule{
		"none":       {},
		"everything": {{APIVersion: "v1", Resource: "nodes"}},
		"in the hook's order": {
			{APIVersion: "v1", Resource: "secrets", Namespace: "away", Names: []string{"b", "a"}},
			{APIVersion: "apps/v1", Resource: "deployments", LabelSelector: selector},
			{APIVersion: "v1", Resource: "configmaps", LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: selector},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, customizeWith(want, nil))
			got, err := c.Customize(t.Context(), newCustomizeRequest())
			if err != nil {
				t.Fatalf("customize: %v", err)
			}
			if diff := diffText(append([]hook.RelatedRule{}, got.Related...), want); diff != "" {
				t.Errorf("response differs: %s", diff)
			}
		})
	}
}

func customizeFailureIsError(t *testing.T, open CustomizerOpener) {
	err := mustFailToCustomize(t, open(t, customizeWith(nil, errors.New("the cat is out"))))
	if !strings.Contains(err.Error(), "the cat is out") {
		t.Errorf("error does not say why: %v", err)
	}
}

func customizeRetryLater(t *testing.T, open CustomizerOpener) {
	err := mustFailToCustomize(t, open(t, customizeWith(nil, &hook.RetryAfterError{After: 7 * time.Second, Err: errors.New("asleep")})))
	if later, ok := errors.AsType[*hook.RetryAfterError](err); !ok || later.After != 7*time.Second {
		t.Errorf("no RetryAfterError with 7s: %v", err)
	}
}

func cancelledCustomize(t *testing.T, open CustomizerOpener) {
	ctx, cancel := context.WithCancel(t.Context())
	c := open(t, hook.CustomizerFunc(func(ctx context.Context, _ *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	if _, err := c.Customize(ctx, newCustomizeRequest()); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// customizeWith returns a customizer with a fixed result.
func customizeWith(rules []hook.RelatedRule, err error) hook.Customizer {
	return hook.CustomizerFunc(func(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		if err != nil {
			return nil, err
		}
		return &hook.CustomizeResponse{Related: rules}, nil
	})
}

func mustFailToCustomize(t *testing.T, c hook.Customizer) error {
	t.Helper()
	resp, err := c.Customize(t.Context(), newCustomizeRequest())
	if err == nil || resp != nil {
		t.Fatalf("got response %v and error %v", resp, err)
	}
	return err
}
