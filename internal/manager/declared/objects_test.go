package declared

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestReconcileRequested(t *testing.T) {
	const before = `{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"a","uid":"u","generation":3,"annotations":{"x":"y"}}}`
	for name, c := range map[string]struct {
		now  string
		want bool
	}{
		"unchanged":                     {before, false},
		"requested":                     {`{"metadata":{"name":"a","uid":"u","generation":3,"annotations":{"x":"y","setpoint.dev/reconcile-at":"now"}}}`, true},
		"requested and annotated":       {`{"metadata":{"name":"a","uid":"u","generation":3,"annotations":{"x":"z","setpoint.dev/reconcile-at":"now"}}}`, false},
		"requested, annotation removed": {`{"metadata":{"name":"a","uid":"u","generation":3,"annotations":{"setpoint.dev/reconcile-at":"now"}}}`, false},
		"requested and labeled":         {`{"metadata":{"name":"a","uid":"u","generation":3,"labels":{"x":"y"},"annotations":{"x":"y","setpoint.dev/reconcile-at":"now"}}}`, false},
		"requested and edited":          {`{"metadata":{"name":"a","uid":"u","generation":4,"annotations":{"x":"y","setpoint.dev/reconcile-at":"now"}}}`, false},
		"requested and paused":          {`{"metadata":{"name":"a","uid":"u","generation":3,"annotations":{"x":"y","setpoint.dev/reconcile-at":"now","setpoint.dev/paused":"true"}}}`, false},
		"recreated":                     {`{"metadata":{"name":"a","uid":"v","generation":3,"annotations":{"x":"y","setpoint.dev/reconcile-at":"now"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ReconcileRequested(parseObject(t, c.now), parseObject(t, before)); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if ReconcileRequested(parseObject(t, before), nil) {
		t.Error("requested without an object")
	}
}

func parseObject(t *testing.T, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}
