package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// requestedObject is an object with a value of setpoint.dev/reconcile-at.
func requestedObject(t *testing.T, value string) *object.Object {
	t.Helper()
	quoted := must.Get(json.Marshal(value)).In(t)
	return must.Get(object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"setpoint.dev/reconcile-at":%s}}}`, quoted))).In(t)
}

func TestReconcileRequest(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 5, time.UTC)
	for _, r := range []plan.ReconcileRequest{{}, {At: at}, {At: at, By: "alice"}, {At: at, By: "cn=a by b"}} {
		if got := plan.ReconcileRequestOn(requestedObject(t, r.String())); !got.At.Equal(r.At) || got.By != r.By {
			t.Errorf("%q reads %+v", r, got)
		}
	}
	for _, value := range []string{"", "now", "1763805600"} {
		if got := plan.ReconcileRequestOn(requestedObject(t, value)); got != (plan.ReconcileRequest{}) {
			t.Errorf("%q reads %+v", value, got)
		}
	}
	if got := plan.ReconcileRequestOn(requestedObject(t, "now by "+strings.Repeat("ü", 1000))); len([]rune(got.By)) != 129 {
		t.Errorf("a user of %d characters is kept", len([]rune(got.By)))
	}
}
