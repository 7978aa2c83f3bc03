package run

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

var update = flag.Bool("update", false, "write docs/flags.md anew")

// docs/flags.md has the table of old and new flags.
func TestLegacyFlagsAreDocumented(t *testing.T) {
	const file = "../../../docs/flags.md"
	text := must.Get(os.ReadFile(file)).In(t)
	before, rest, begins := strings.Cut(string(text), "<!-- former -->\n")
	_, after, ends := strings.Cut(rest, "<!-- end of former -->")
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", file)
	}
	want := before + "<!-- former -->\n" + legacyTable() + "<!-- end of former -->" + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the flags are: go test ./internal/cmd/run -run %s -update", file, t.Name())
	}
	must.Succeed(t, os.WriteFile(file, []byte(want), 0o644))
}
