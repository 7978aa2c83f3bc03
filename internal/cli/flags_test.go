package cli

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/must"
)

var update = flag.Bool("update", false, "write docs/flags.md anew")

// docs/flags.md holds what help prints.
func TestFlagsAreDocumented(t *testing.T) {
	const file = "../../docs/flags.md"
	text := must.Get(os.ReadFile(file)).In(t)
	want := string(text)
	for _, name := range []string{"run", "dev", "plan", "get", "why", "tree", "rbac", "reconcile", "allow-deletions", "release", "rollout status", "rollout history", "uninstall", "log-level", "support-bundle", "doctor", "record",
		"test", "render"} {
		want = between(t, want, "<!-- "+name+" -->\n", "<!-- end of "+name+" -->", help(t, name))
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what help says: go test ./internal/cli -run %s -update", file, t.Name())
	}
	must.Succeed(t, os.WriteFile(file, []byte(want), 0o644))
}

func between(t *testing.T, text, from, to, content string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, from)
	_, after, alsoFound := strings.Cut(rest, to)
	if !found || !alsoFound {
		t.Fatalf("no place between %q and %q", from, to)
	}
	return before + from + content + to + after
}

func help(t *testing.T, name string) string {
	t.Helper()
	code, out, problems := invoke(t.Context(), append(strings.Fields(name), "--help")...)
	if code != command.OK {
		t.Fatal(problems)
	}
	return "```\n" + out + "```\n"
}
