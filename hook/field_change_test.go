package hook_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

func TestFieldChangeString(t *testing.T) {
	changes := []hook.FieldChange{
		{Path: "spec.currency", From: json.RawMessage(`"USD"`), To: json.RawMessage(`"CHF"`)},
		{Path: "spec.note", To: json.RawMessage(`{"by":"tom"}`)},
	}
	want := `[spec.currency: "USD" -> "CHF" spec.note: nothing -> {"by":"tom"}]`
	if got := fmt.Sprint(changes); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
