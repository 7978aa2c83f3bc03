package setpoint_test

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/setpoint-dev/setpoint"

// floors is the map of the house, ground floor first. A room may import rooms
// of lower floors only. "x/..." stands for x and every folder below it.
var floors = [][]string{
	{"api/...", "config/crd", "hook", "internal/calendar", "internal/call/roundtrip", "internal/failure", "internal/heaptest", "internal/object", "internal/queue"},
	{"hook/hooktest", "internal/plan", "internal/store", "internal/call/..."},
	{"internal/apply", "internal/admission", "internal/credential", "internal/related"},
	{"internal/trace"},
	{"internal/engine", "internal/react"},
	{"internal/compile", "internal/inspect"},
	{"internal/asuser", "internal/diff", "internal/inspect/wire", "internal/ui/form"},
	{"internal/lineage", "internal/timeline", "internal/ui/access"},
	{"internal/reach", "internal/reach/token", "internal/ui"},
	{"internal/host", "internal/reach/pods"},
	{"internal/preview"},
	{"."},
	{"controllers/...", "setpointtest"},
	{"examples/...", "internal/dev/..."},
	{"internal/cli"},
	{"cmd/setpoint", "controlplane/...", "test/...", "tools/..."},
}

// neighbours lists the imports that stay on one floor, each with its reason.
var neighbours = []struct{ from, to, why string }{
	{"api/metacontroller/v1alpha1", "api/v1alpha1", "both groups report one and the same status"},
	{"controlplane/...", "controlplane/...", "a nested module orders its own rooms"},
	{"examples/...", "examples/...", "the types of an example's API and its program"},
	{"internal/dev/...", "internal/dev/...", "the dev loop is one room with a seam between its parts"},
	{"test/...", "test/...", "a harness and the tests that use it"},
	{"tools/...", "tools/...", "a nested module orders its own rooms"},
}

// doors narrows what the upper floors may enter of all that lies below them:
// what is written for users is written through the doors that users have. The
// first entry that matches a room counts.
var doors = []struct {
	room string
	open []string
	why  string
}{
	{"cmd/setpoint", []string{"internal/cli"}, "main only hands over to the command line"},
	{"controllers/...", []string{".", "api/...", "hook"}, "bundled controllers prove that the SDK's public door is enough"},
	{"examples/...", []string{".", "api/...", "controllers/...", "examples/...", "hook"}, "an example that needs more could not be copied by a reader"},
	{"controlplane/apptest", []string{"controlplane", "."}, "the test kit runs an app on a control plane, through the doors that both have for users"},
	{"controlplane/...", []string{"controlplane/...", "internal/cli", "internal/dev/..."}, "heavy imports light at the two seams made for it"},
	{"test/...", []string{"test/...", ".", "api/...", "hook"}, "tests go through the door that the user uses"},
	{"tools/...", []string{"tools/...", "api/..."}, "generators read the API types and nothing else"},
}

// libraries places every third-party library. The longest matching path counts.
// Test files may use any of them; an empty list of rooms means tests alone.
// docs/dependencies.md says more about each.
var libraries = []struct {
	path  string
	rooms []string
}{
	{"github.com/chromedp", nil},
	{"github.com/fluxcd/cli-utils", []string{"internal/inspect"}},
	{"github.com/fsnotify/fsnotify", []string{"internal/dev/..."}},
	{"github.com/go-json-experiment/json", []string{"hook", "internal/object"}},
	{"github.com/go-logr/logr", []string{"internal/host", "internal/cli", "test/bench/..."}},
	{"github.com/google/go-cmp", nil},
	{"github.com/prometheus", []string{"internal/host"}},
	{"github.com/robfig/cron/v3", []string{"internal/calendar"}},
	{"github.com/rogpeppe/go-internal", nil},
	{"github.com/spf13/cobra", []string{"internal/cli", "controlplane/..."}},
	{"github.com/spf13/pflag", []string{"internal/cli", "controlplane/..."}},
	{"go.etcd.io/etcd", []string{"controlplane/..."}},
	{"go.opentelemetry.io", []string{"internal/host"}},
	{"golang.org/x/sync", []string{"..."}},
	{"golang.org/x/sys", []string{"internal/dev/...", "internal/cli", "controlplane/..."}},
	{"golang.org/x/term", []string{"internal/cli", "internal/dev/..."}},
	{"golang.org/x/tools", nil},
	{"gopkg.in/evanphx/json-patch.v4", nil},
	{"k8s.io/api", []string{"..."}},
	{"k8s.io/apiextensions-apiserver", []string{"controlplane/...", "tools/..."}},
	{"k8s.io/apimachinery", []string{"..."}},
	{"k8s.io/client-go", []string{
		"internal/store", "internal/apply", "internal/admission", "internal/host",
		"internal/dev/...", "internal/cli", "internal/reach/...", "internal/asuser", "internal/ui/access",
		"controlplane/...", "test/bench/...",
	}},
	{"k8s.io/component-base", []string{"controlplane/..."}},
	{"k8s.io/cri-streaming", nil},
	{"k8s.io/klog/v2", []string{"internal/host", "internal/cli", "controlplane/...", "test/bench/..."}},
	{"k8s.io/kube-openapi", []string{"internal/ui/form", "internal/asuser"}},
	{"k8s.io/kubectl", []string{"controlplane/..."}},
	{"k8s.io/kubernetes", []string{"controlplane/..."}},
	{"k8s.io/streaming", []string{"internal/reach/pods"}},
	{"k8s.io/utils", []string{"..."}},
	{"sigs.k8s.io/controller-runtime", []string{"test/bench/..."}},
	{"sigs.k8s.io/kwok", []string{"controlplane/..."}},
	{"sigs.k8s.io/structured-merge-diff/v6", []string{"internal/diff"}},
	{"sigs.k8s.io/yaml", []string{"..."}},
}

func TestEveryRoomIsOnTheMap(t *testing.T) {
	for _, f := range readTree(t) {
		if floorOf(f.room) < 0 {
			t.Errorf("%s: the folder %q has no floor.\n\tGive it one in floors_test.go: the lowest above everything it imports. "+
				"If no floor fits, the code may belong to a room that exists.", f.path, f.room)
		}
	}
}

func TestImportsRunDown(t *testing.T) {
	for _, f := range readTree(t) {
		for _, spec := range f.syntax.Imports {
			imported, ours := roomOfImport(spec.Path.Value)
			if !ours || imported == f.room {
				continue
			}
			if complaint := judge(f, imported); complaint != "" {
				t.Errorf("%s: %s imports %s: %s", f.position(spec), f.room, imported, complaint)
			}
		}
	}
}

func TestLibrariesStayInTheirRooms(t *testing.T) {
	for _, f := range readTree(t) {
		for _, spec := range f.syntax.Imports {
			name, third := thirdParty(spec.Path.Value)
			if !third {
				continue
			}
			rooms, known := placesOf(name)
			switch {
			case !known:
				t.Errorf("%s: %s is a new library.\n\tA dependency is a decision: place it in floors_test.go and explain it in docs/dependencies.md.",
					f.position(spec), name)
			case !f.test && !matchesAny(rooms, f.room):
				t.Errorf("%s: %s does not belong in %s; it may be used in %v (and in tests)", f.position(spec), name, f.room, rooms)
			}
		}
	}
}

func TestLibrariesAreExplained(t *testing.T) {
	text, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range libraries {
		if !strings.Contains(string(text), "`"+lib.path+"`") {
			t.Errorf("docs/dependencies.md does not say what `%s` is for", lib.path)
		}
	}
}

func TestEveryPackageHasARoomCard(t *testing.T) {
	cards := map[string]string{}
	for _, f := range readTree(t) {
		cards[f.room] += f.syntax.Doc.Text()
	}
	for room, card := range cards {
		if strings.TrimSpace(card) == "" {
			t.Errorf("%s has no package comment: say what lives there, what must not, and who calls", room)
		}
	}
}

// judge says what is wrong with a room of ours importing another, or nothing.
func judge(f goFile, imported string) string {
	from, to := floorOf(f.room), floorOf(imported)
	// Two things a test may do that its room may not: look sideways, and ask
	// the suite that every way of calling a hook must pass.
	sideways := to == from && (f.test || isNeighbour(f.room, imported))
	switch {
	case to < 0:
		return "that room is not on the map in floors_test.go"
	case to > from:
		return "imports run down only, and it lies on a higher floor (" + strconv.Itoa(to) + " above " + strconv.Itoa(from) + ")"
	case to == from && !sideways:
		return "they share floor " + strconv.Itoa(from) + "; what both need belongs below them, or the import wants a reason in neighbours"
	case !f.test:
		return doorClosed(f.room, imported)
	}
	return ""
}

func doorClosed(from, to string) string {
	for _, d := range doors {
		switch {
		case !matches(d.room, from):
		case matchesAny(d.open, to):
			return ""
		default:
			return "only " + strings.Join(d.open, ", ") + " may be entered from there: " + d.why
		}
	}
	return ""
}

func isNeighbour(from, to string) bool {
	for _, n := range neighbours {
		if matches(n.from, from) && matches(n.to, to) {
			return true
		}
	}
	return false
}

// floorOf returns the floor of a room, or -1. An exact name wins over a
// pattern, so that hook/hooktest may live above the rest of hook.
func floorOf(room string) int {
	for floor, rooms := range floors {
		if slices.Contains(rooms, room) {
			return floor
		}
	}
	for floor, rooms := range floors {
		if matchesAny(rooms, room) {
			return floor
		}
	}
	return -1
}

func roomOfImport(quoted string) (room string, ours bool) {
	name := unquote(quoted)
	if name == module {
		return ".", true
	}
	return strings.CutPrefix(name, module+"/")
}

func thirdParty(quoted string) (name string, third bool) {
	name = unquote(quoted)
	_, ours := roomOfImport(quoted)
	first, _, _ := strings.Cut(name, "/")
	return name, !ours && strings.Contains(first, ".")
}

func placesOf(name string) (rooms []string, known bool) {
	longest := ""
	for _, lib := range libraries {
		if matches(lib.path+"/...", name) && len(lib.path) > len(longest) {
			longest, rooms, known = lib.path, lib.rooms, true
		}
	}
	return rooms, known
}

func matchesAny(patterns []string, room string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, room) })
}

// matches reports whether a room is meant by a pattern of the map.
func matches(pattern, room string) bool {
	base, below := strings.CutSuffix(pattern, "...")
	if !below {
		return pattern == room
	}
	base = path.Clean(base)
	return base == "." || room == base || strings.HasPrefix(room, base+"/")
}

func unquote(s string) string { return strings.Trim(s, `"`) }
