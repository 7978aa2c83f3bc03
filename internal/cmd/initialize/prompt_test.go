package initialize

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestPrompts(t *testing.T) {
	for input, want := range map[string]initFlags{
		"":         {language: "javascript", kind: "GuitarShop", group: "example.com", children: []string{"configmaps"}},
		"\n\n\n\n": {language: "javascript", kind: "GuitarShop", group: "example.com", children: []string{"configmaps"}},
		"javascrip\ngo\nshop\nShop\na.org\nservices, deployments": {language: "go", kind: "Shop", group: "a.org", children: []string{"services", "deployments"}},
	} {
		var out bytes.Buffer
		p := &command.Invocation{Stdin: strings.NewReader(input), Stdout: &out}
		f := &initFlags{language: "javascript", group: "example.com", children: []string{"configmaps"}}
		must.Succeed(t, prompt(p, Command(p, nil), f, "guitar-shop"))
		if diff := cmp.Diff(want, *f, cmp.AllowUnexported(initFlags{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", input, diff)
		}
		if !strings.Contains(out.String(), "Kind [GuitarShop]: ") {
			t.Errorf("prompts: %s", &out)
		}
	}
}

// What flags say has no prompt, and nothing has where an operator is already.
func TestPromptsOnlyForWhatIsMissing(t *testing.T) {
	var out bytes.Buffer
	p := &command.Invocation{Stdin: strings.NewReader("services\n"), Stdout: &out}
	c := Command(p, nil)
	must.Succeed(t, c.ParseFlags([]string{"--language", "go"}))
	f := &initFlags{language: "go", fromCRD: "../../../examples/immortalcontainer/crd.yaml", children: []string{"configmaps"}}
	must.Succeed(t, prompt(p, c, f, "shop"))
	if strings.Count(out.String(), "]: ") != 1 || f.children[0] != "services" {
		t.Errorf("%s: %v", &out, f.children)
	}
	if f.output = "../../../examples/guitar"; !errors.Is(prompt(p, c, f, "shop"), fs.ErrExist) {
		t.Error("it prompts in the folder of an operator")
	}
}
