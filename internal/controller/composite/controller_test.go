package composite

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Fault U7: a deletion of a managed parent is recorded when the watch delivers it, unless the
// object may only have left the selector of the watch.
func TestDeletionsAreRecorded(t *testing.T) {
	some, err := labels.Parse("a=b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		program Program
		text    string
		want    int
	}{
		{"managed", Program{}, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"namespace":"town","name":"a","uid":"1"}}`, 1},
		{"narrowed", Program{Selections: []Selection{{Labels: some}}}, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"namespace":"town","name":"a","uid":"1","labels":{"a":"b"}}}`, 0},
		{"by fields", Program{Fields: "metadata.name=a"}, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"namespace":"town","name":"a","uid":"1"}}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := shopsOf(t, newCluster(t), c.program)
			gone, err := object.Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			s.parentChanged(cache.Event{Old: gone})
			got := s.runRecorder.deletions
			if len(got) != c.want {
				t.Fatalf("recorded %+v, want %d", got, c.want)
			}
			if c.want > 0 && (got[0].Outcome != record.Deleted || got[0].UID != "1" || got[0].Key != controller.KeyOf(gone) || got[0].StartTime.IsZero() || got[0].IsNoop()) {
				t.Errorf("recorded %+v", got[0])
			}
		})
	}
}
