package initialize

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/scaffold"
)

// A program that is made from a clone uses the clone, since its module may not be where the Go command looks.
func TestInitLocal(t *testing.T) {
	f := &initFlags{language: "go", local: "../../..", group: "example.com", children: []string{"configmaps"}}
	o := must.Get(f.operator("shop")).In(t)
	clone := must.Get(filepath.Abs("../../..")).In(t)
	o.Release = "v1.2.3"
	files := must.Get(scaffold.Files(o)).In(t)
	module := string(files["go.mod"])
	if !strings.HasSuffix(module, "\n\nreplace github.com/setpoint-dev/setpoint => "+clone+"\n") || strings.Contains(module, "v1.2.3") {
		t.Errorf("go.mod:\n%s", module)
	}
	if !strings.Contains(string(files["README.md"]), "go mod vendor") {
		t.Errorf("README.md:\n%s", files["README.md"])
	}
	o.Local = "/my code/setpoint"
	if files = must.Get(scaffold.Files(o)).In(t); !strings.Contains(string(files["go.mod"]), `=> "/my code/setpoint"`) {
		t.Errorf("go.mod:\n%s", files["go.mod"])
	}
}

func TestInitLocalNeedsAClone(t *testing.T) {
	for want, f := range map[string]*initFlags{
		"--local . must be a clone of Setpoint":             {language: "go", local: "."},
		"--local /nowhere must be a clone of Setpoint":      {language: "go", local: "/nowhere"},
		"--local is for --language go: python needs no mod": {language: "python", local: "../../.."},
	} {
		if _, err := f.operator("shop"); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), ":", ""), strings.ReplaceAll(want, ":", "")) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
