package get

import (
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Fault U12: names of controllers took up to 71 characters. A narrow terminal shows
// them without their kind where that means no other; commands take both, and a pipe has them whole.
func TestNamesFitTerminal(t *testing.T) {
	all := []inspect.Controller{
		{Name: "decoratorcontroller.metacontroller.k8s.io/service-per-pod"}, {Name: "compositecontroller.setpoint.dev/teams"},
		{Name: "compositecontroller.metacontroller.k8s.io/teams"}, {Name: "exchange/rates"}, {Name: "plain"},
	}
	whole := []string{all[0].Name, all[1].Name, all[2].Name, all[3].Name, all[4].Name}
	shortest := []string{"service-per-pod", whole[1], whole[2], "rates", "plain"}
	head := []string{"NAME", "READY", "LAST ERROR"}
	for _, c := range []struct {
		width int
		want  []string
	}{
		{0, whole}, {200, whole}, {57 + 3 + 5 + 3 + 10, whole}, {57 + 3 + 5 + 3 + 9, shortest}, {60, shortest}, {1, shortest},
	} {
		var rows []output.Row
		for _, one := range all {
			rows = append(rows, output.Row{Name: one.Name, Cells: []string{one.Name, "True", strings.Repeat("no ", 30)}})
		}
		abbreviate(rows, head, all, c.width)
		var got []string
		for _, r := range rows {
			got = append(got, r.Cells[0])
			if meant := slices.DeleteFunc(slices.Clone(whole), func(name string) bool { return name != r.Cells[0] && !strings.HasSuffix(name, "/"+r.Cells[0]) }); len(meant) != 1 {
				t.Errorf("%q means others than %s, too", r.Cells[0], r.Name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("in %d: %q, want %q", c.width, got, c.want)
		}
	}
}
