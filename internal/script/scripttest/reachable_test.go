package scripttest

import (
	"encoding/json"
	"flag"
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"strings"
	"testing"
)

//nolint:gochecknoglobals // a flag of go test.
var update = flag.Bool("update", false, "write the lists of what an author's code can reach")

// TestReachable lists every object that JavaScript can reach, and compares it with a list that a
// person has read: nothing there reads files, the network, the environment or the clock. A new
// version of the engine that has more fails here.
func TestReachable(t *testing.T) {
	p := languages[0].load(t, read(t, "testdata/reachable.js"))
	var response struct{ Reachable []string }
	must.Succeed(t, json.Unmarshal([]byte(call(t, p, `{"a":{}}`)), &response))
	got, golden := strings.Join(response.Reachable, "\n")+"\n", "testdata/reachable.txt"
	if *update {
		must.Succeed(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want := read(t, golden)
	for _, name := range missing(got, want) {
		t.Errorf("code can reach %s, which is not in %s", name, golden)
	}
	for _, name := range missing(want, got) {
		t.Errorf("code cannot reach %s, which is in %s", name, golden)
	}
}

// missing are the lines of a text that another text does not have.
func missing(text, other string) (lines []string) {
	has := map[string]bool{}
	for line := range strings.Lines(other) {
		has[line] = true
	}
	for line := range strings.Lines(text) {
		if !has[line] {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
