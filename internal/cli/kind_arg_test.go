package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault G5: all commands take the same words for a kind, those of kubectl, and refuse a word
// that several groups serve.
func TestCommandsAgreeOnWords(t *testing.T) {
	clitest.UseCluster(t, http.HandlerFunc(apiServer))
	kinds := []object.Kind{clitest.Team().Kind}
	source := &objectSource{clitest.WithControllers(clitest.NewFakeProcess("setpoint"), []inspect.Controller{
		{Name: "compositecontroller.setpoint.dev/both", Kinds: kinds}, {Name: "compositecontroller.metacontroller.k8s.io/both", Kinds: kinds},
		{Name: "compositecontroller.setpoint.dev/teams", Kinds: kinds},
	})}
	serveProcess(t, source)
	const several = `error: "compositecontroller" is ambiguous: use one of compositecontrollers.setpoint.dev, compositecontrollers.metacontroller.k8s.io`
	for _, c := range []struct {
		args, stderr string
	}{
		{"get compositecontroller/teams", several},
		{"allow-deletions compositecontroller/teams", several},
		{"plan compositecontroller/teams -A", several},
		{"why compositecontroller/teams", several},
		{"tree compositecontroller/teams", several},
		{"plan spcc/teams compositecontroller/x", several},
		{"get both", `error: controller "both" is ambiguous`},
		{"get spcc/teams -A -o name", ""},
		{"get compositecontrollers.setpoint.dev/both -A -o name", ""},
		{"get cctl/both -A -o name", ""},
		{"get cctl/teams -A", `error: no controller "compositecontroller.metacontroller.k8s.io/teams"`},
		{"get spcc.metacontroller.k8s.io/both -A", `error: no controller "spcc.metacontroller.k8s.io/both"`},
		{"why spcc.metacontroller.k8s.io/both", `error: the API server serves no kind "spcc.metacontroller.k8s.io"`},
		{"plan spcc.metacontroller.k8s.io/both -A", `error: the API server serves no kind "spcc.metacontroller.k8s.io"`},
		{"plan temas/red", "hint: did you mean teams.example.com? `kubectl api-resources` lists the kinds"},
		{"why tem/red", "hint: did you mean teams.example.com? `kubectl api-resources` lists the kinds"},
		{"why zebra/red", "hint: `kubectl api-resources` lists the kinds; a kind that is missing there needs its CustomResourceDefinition"},
		{"rollout status spcc/", `error: "spcc/" has no name: use spcc/NAME`},
		{"plan spcc/ -A", `error: "spcc/" has no name: use spcc/NAME`},
		{"plan team/red", "error: no controller given; use compositecontroller.setpoint.dev/NAME"},
	} {
		code, out, problems := invoke(t.Context(), strings.Fields(c.args)...)
		if (code == command.OK) != (c.stderr == "") || !strings.Contains(problems, c.stderr) || c.stderr == "" && out == "" {
			t.Errorf("%s: %d\n%s%s\nwant\n%s", c.args, code, out, problems, c.stderr)
		}
	}
}
