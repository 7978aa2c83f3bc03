package hook_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

func TestChangesAreReadable(t *testing.T) {
	changes := []hook.FieldChange{
		{Path: "spec.currency", Old: json.RawMessage(`"USD"`), New: json.RawMessage(`"CHF"`)},
		{Path: "spec.note", New: json.RawMessage(`{"by":"tom"}`)},
	}
	want := `[spec.currency: "USD" -> "CHF" spec.note: nothing -> {"by":"tom"}]`
	if got := fmt.Sprint(changes); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
