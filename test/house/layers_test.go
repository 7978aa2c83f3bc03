package house

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// module is the path of the root module.
const module = "github.com/setpoint-dev/setpoint"

// layers lists the packages of the repository, lowest layer first. A package may import
// packages of lower layers only. "x/..." matches x and every folder below it.
var layers = [][]string{
	{"internal/lists"},
	{"api/...", "config/crd", "hook", "internal/schedule", "internal/call/roundtrip", "internal/failure", "internal/heaptest", "internal/memory", "internal/must", "internal/object", "internal/process", "internal/queue", "internal/script", "js", "python"},
	{"hook/codec", "internal/lasthandled", "internal/redact"},
	{"internal/trace", "internal/redact/guess"},
	{"internal/call", "internal/call/child"},
	{"hook/hooktest", "internal/explore/apiserver/kinds", "internal/plan", "internal/cache", "internal/call/...", "internal/expression", "internal/lease", "internal/request", "internal/rollout", "internal/schema", "internal/scaffold", "internal/script/...", "internal/sdk/mergepatch", "internal/served"},
	{"internal/selector"},
	{"internal/apply", "internal/sdk/kinds", "internal/plan/rolling", "internal/identity", "internal/admission/...", "internal/configmap", "internal/credential", "internal/related"},
	{"internal/record"},
	{"internal/controller", "internal/difference", "internal/recording"},
	{"internal/controller/guard", "internal/rollout/router"},
	{"internal/controller/trigger"},
	{"internal/controller/handler/index", "internal/controller/handler/permit"},
	{"internal/controller/composite", "internal/controller/handler"},
	{"internal/compile", "internal/inspect", "internal/dashboard/userclient"},
	{"internal/diff", "internal/inspect/wire", "internal/dashboard/form", "internal/typegen"},
	{"internal/dashboard/ownertree", "internal/dashboard/timeline", "internal/dashboard/access", "internal/dashboard/format", "internal/dashboard/templates"},
	{"internal/dashboard/processes"},
	{"internal/dashboard/web"},
	{"internal/dashboard/objects"},
	{"internal/dashboard/edit"},
	{"internal/inspect/locate", "internal/inspect/locate/token", "internal/dashboard"},
	{"internal/request"},
	{"internal/manager/crds", "internal/manager/events", "internal/manager/leader"},
	{"internal/manager/calls", "internal/manager/conflicts", "internal/manager/rbac", "internal/manager/kinds", "internal/manager/revisions", "internal/manager/serving"},
	{"internal/manager/declared", "internal/manager/finalizers", "internal/manager/running"},
	{"internal/manager/controllers"},
	{"internal/manager/uninstall"},
	{"internal/manager", "internal/inspect/locate/portforward", "internal/dev/inventory", "internal/dev/manifest", "internal/dev/project"},
	{"internal/dryrun", "internal/flags", "internal/operator", "internal/workspace", "internal/explore/apiserver/...", "dashboard"},
	{"internal/explore/environment", "internal/explore/loop"},
	{"internal/explore/world", "internal/explore/phrase"},
	{"internal/explore/property", "internal/explore/outcome"},
	{"internal/explore/state", "internal/explore/counterexample"},
	{"internal/explore/graph"},
	{"internal/explore", "internal/explore/document"},
	{"internal/sdk"},
	{"."},
	{"controllers/...", "setpointtest"},
	{"examples/...", "internal/dev/...", "internal/testcase"},
	{"internal/cli/command", "internal/cli/clitest", "internal/cli/manifests"},
	{"internal/cli/output", "internal/cli/hooks"},
	{"internal/cli/client"},
	{"internal/cli/processes", "internal/cli/operators", "internal/cli/offline"},
	{"internal/cmd/..."},
	{"internal/cli"},
	{"cmd/...", "controlplane/...", "test/...", "tools/..."},
}

// siblings lists the imports allowed within one layer, each with its reason.
var siblings = []struct{ from, to, why string }{
	{"internal/admission/...", "internal/admission", "the programs that its packages serve and register"},
	{"internal/admission/register", "internal/admission/certs", "configurations have the CAs of the certificates"},
	{"internal/admission/server", "internal/admission/patch", "responses have patches"},
	{"api/metacontroller/v1alpha1", "api/v1alpha1", "both groups report one and the same status"},
	{"controlplane/...", "controlplane/...", "a nested module orders its own packages"},
	{"examples/...", "examples/...", "the types of an example's API and its program"},
	{"internal/dev/...", "internal/dev/...", "the dev loop is one unit in several packages"},
	{"internal/explore/apiserver/apiservertest", "internal/explore/apiserver", "tests have servers of their own"},
	{"internal/explore/apiserver", "internal/explore/apiserver/apiservertest", "so do those of the server"},
	{"internal/explore/document", "internal/explore", "documents become options of explorations"},
	{"internal/script/scripttest", "internal/script/...", "the tests that all engines pass"},
	{"internal/script/...", "internal/script/scripttest", "the tests of one engine call it as the tests of all do"},
	{"test/node", "controlplane", "a real node joins a control plane with flags that `setpoint dev` does not have"},
	{"test/...", "test/...", "a harness and the tests that use it"},
	{"tools/...", "tools/...", "a nested module orders its own packages"},
}

// restricted narrows what packages may import of the layers below: what shows users how
// to use Setpoint uses its public packages only. The first entry that matches a package
// applies.
var restricted = []struct {
	pkg     string
	allowed []string
	why     string
}{
	{"cmd/setpoint", []string{"internal/cli"}, "main only calls the command line"},
	{
		"cmd/setpoint-controller", []string{"internal/cli/command", "internal/cli/hooks", "internal/cmd/run", "internal/cmd/version"},
		"a cluster runs controllers, and types no commands",
	},
	{"controllers/...", []string{".", "api/...", "hook"}, "bundled controllers show that the public SDK is enough"},
	{"examples/...", []string{".", "api/...", "controllers/...", "dashboard", "examples/...", "hook"}, "a reader can copy an example only if it uses public packages"},
	{"controlplane/apptest", []string{"controlplane", ".", "internal/sdk"}, "the test kit runs an app on a control plane through the public API of both, and asks it for the kinds of Go types"},
	{"controlplane/...", []string{"controlplane/...", "internal/cli", "internal/dev/...", "internal/memory", "internal/process"}, "the control plane imports the light module at four places"},
	{"test/explore", []string{"internal/apply", "internal/explore/apiserver/...", "internal/explore/environment", "internal/object", "internal/plan"}, "it compares them, and their writes, with the real control plane"},
	{"test/node", []string{"controlplane", "test/node/..."}, "its control plane has flags for a real node"},
	{"test/...", []string{"test/...", ".", "api/...", "hook"}, "tests use what a user uses"},
	{"tools/...", []string{"tools/...", "api/..."}, "generators read the API types and nothing else"},
}

// importedBy lists packages that only some of the layers above may import.
var importedBy = []struct {
	pkg string
	by  []string
	why string
}{
	{"hook/codec", []string{"hook/hooktest", "internal/admission/server", "internal/call/...", "internal/compile", "internal/explore/loop", "internal/record"}, "loops and programs know requests and responses as values"},
	{"internal/call/inline", []string{"internal/cli/hooks"}, "programs of the SDK have no engines"},
	{"internal/call/program", []string{"internal/cli/hooks"}, "programs of the SDK start no programs"},
	{"internal/script/...", []string{"internal/cli/hooks", "internal/call/inline", "internal/script/..."}, "programs of the SDK have no engines"},
}

// thirdPartyLibraries says which packages may import each third-party library. The longest
// matching path applies. Test files may import any of them; an empty list means tests only.
// deps/README.md explains each.
var thirdPartyLibraries = []struct {
	path string
	pkgs []string
}{
	{"github.com/chromedp", nil},
	{"github.com/elastic/go-seccomp-bpf", []string{"internal/script"}},
	{"github.com/fluxcd/cli-utils", []string{"internal/inspect"}},
	{"github.com/fsnotify/fsnotify", []string{"internal/dev/..."}},
	{"github.com/go-json-experiment/json", []string{"hook/codec", "internal/object", "internal/script/..."}},
	{"github.com/go-logr/logr", []string{"internal/manager/...", "test/bench/..."}},
	{"github.com/google/cel-go", []string{"internal/expression"}},
	{"github.com/google/go-cmp", nil},
	{"github.com/google/go-containerregistry", []string{"tools/release", "test/node/..."}},
	{"github.com/prometheus", []string{"internal/manager/...", "."}},
	{"github.com/robfig/cron/v3", []string{"internal/schedule"}},
	{"github.com/rogpeppe/go-internal", []string{"internal/diff", "test/pages"}},
	{"github.com/spf13/cobra", []string{"cmd/...", "internal/cli/...", "internal/cmd/...", "controlplane/..."}},
	{"github.com/spf13/pflag", []string{"internal/cli/...", "internal/cmd/...", "controlplane/..."}},
	{"go.etcd.io/etcd", []string{"controlplane/..."}},
	{"go.opentelemetry.io", []string{"internal/trace", "."}},
	{"go.yaml.in/yaml/v3", []string{"internal/manager/rbac", "internal/dev/manifest", "tools/reference"}},
	{"go.starlark.net", []string{"internal/script/starlark"}},
	{"golang.org/x/crypto/x509roots/fallback", []string{"tools/release"}},
	{"golang.org/x/mod", nil},
	{"golang.org/x/net/dns", []string{"test/node"}},
	{"golang.org/x/sync", []string{"..."}},
	{"golang.org/x/sys", []string{"internal/dev/...", "controlplane/..."}},
	{"golang.org/x/term", []string{"internal/cli/output", "internal/dev/..."}},
	{"golang.org/x/tools", nil},
	{"gopkg.in/evanphx/json-patch.v4", []string{"internal/explore/apiserver"}},
	{"google.golang.org/protobuf", nil},
	{"helm.sh/helm/v4", nil},
	{"k8s.io/api", []string{"..."}},
	{"k8s.io/apiextensions-apiserver", []string{"internal/explore/apiserver/kinds", "controlplane/...", "tools/..."}},
	{"k8s.io/apimachinery", []string{"..."}},
	{"k8s.io/apiserver", []string{"internal/explore/apiserver/kinds"}},
	{"k8s.io/client-go", []string{
		"internal/cache", "internal/apply", "internal/identity", "internal/admission/...", "internal/lease", "internal/request", "internal/manager/...", "internal/operator", "internal/sdk/...", "internal/workspace",
		"internal/dev/...", "internal/explore/apiserver/...", "internal/explore/loop", "internal/cli/...", "internal/cmd/...", "internal/dashboard", "internal/inspect/locate/...", "internal/dashboard/userclient", "internal/dashboard/access",
		"controlplane/...", "test/bench/...", "test/node",
	}},
	{"k8s.io/cli-runtime", nil},
	{"k8s.io/component-base", []string{"controlplane/..."}},
	{"k8s.io/cri-streaming", nil},
	{"k8s.io/klog/v2", []string{"internal/manager/leader", "internal/flags", "controlplane/...", "test/bench/..."}},
	{"k8s.io/kube-openapi", []string{"internal/explore/document", "internal/explore/apiserver/kinds", "internal/dashboard/form", "internal/dashboard/userclient", "internal/operator", "internal/manager/crds", "internal/schema", "internal/typegen"}},
	{"k8s.io/kubectl", []string{"controlplane/..."}},
	{"k8s.io/kubernetes", []string{"controlplane/..."}},
	{"k8s.io/streaming", []string{"internal/inspect/locate/portforward"}},
	{"k8s.io/utils", []string{"..."}},
	{"modernc.org/libc", []string{"internal/script/javascript"}},
	{"modernc.org/libquickjs", []string{"internal/script/javascript"}},
	{"sigs.k8s.io/controller-runtime", []string{"test/bench/..."}},
	{"sigs.k8s.io/json", []string{"internal/explore/apiserver/kinds", "internal/object"}},
	{"sigs.k8s.io/kwok", []string{"controlplane/..."}},
	{"sigs.k8s.io/structured-merge-diff/v6", []string{"internal/explore/apiserver/..."}},
	{"sigs.k8s.io/yaml", []string{"..."}},
}

func TestEveryPackageHasALayer(t *testing.T) {
	for _, f := range parseRepository(t) {
		if layerOf(f.pkg) < 0 {
			t.Errorf("%s: the package %q has no layer.\n\tAdd it to layers_test.go: the lowest layer above everything it imports. "+
				"If no layer fits, the code may belong to an existing package.", f.path, f.pkg)
		}
	}
}

func TestImportsRunDown(t *testing.T) {
	for _, f := range parseRepository(t) {
		for _, spec := range f.syntax.Imports {
			imported, ours := packageOfImport(spec.Path.Value)
			if !ours || imported == f.pkg {
				continue
			}
			if problem := checkImport(f, imported); problem != "" {
				t.Errorf("%s: %s imports %s: %s", f.position(spec), f.pkg, imported, problem)
			}
		}
	}
}

func TestLibrariesStayInTheirPackages(t *testing.T) {
	for _, f := range parseRepository(t) {
		for _, spec := range f.syntax.Imports {
			name, third := thirdParty(spec.Path.Value)
			if !third {
				continue
			}
			pkgs, known := packagesOf(name)
			switch {
			case !known:
				t.Errorf("%s: %s is a new library.\n\tA dependency is a decision: add it to layers_test.go and explain it in deps/README.md.",
					f.position(spec), name)
			case !f.test && !matchesAny(pkgs, f.pkg):
				t.Errorf("%s: %s does not belong in %s; it may be used in %v (and in tests)", f.position(spec), name, f.pkg, pkgs)
			}
		}
	}
}

func TestLibrariesAreExplained(t *testing.T) {
	text := must.Get(os.ReadFile("deps/README.md")).In(t)
	for _, lib := range thirdPartyLibraries {
		if !strings.Contains(string(text), "`"+lib.path+"`") {
			t.Errorf("deps/README.md does not say what `%s` is for", lib.path)
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	comments := map[string]string{}
	for _, f := range parseRepository(t) {
		comments[f.pkg] += f.syntax.Doc.Text()
	}
	for pkg, comment := range comments {
		if strings.TrimSpace(comment) == "" {
			t.Errorf("%s has no package comment: say what lives there, what must not, and who calls", pkg)
		}
	}
}

// checkImport says why a package may not import another of ours; empty if it may.
func checkImport(f goFile, imported string) string {
	from, to := layerOf(f.pkg), layerOf(imported)
	sideways := to == from && (f.test || isSibling(f.pkg, imported))
	switch {
	case to < 0:
		return "that package is not in layers_test.go"
	case to > from:
		return "imports run down only, and it is in a higher layer (" + strconv.Itoa(to) + " above " + strconv.Itoa(from) + ")"
	case to == from && !sideways:
		return "they share layer " + strconv.Itoa(from) + "; move what both need to a lower layer, or add the import to siblings with a reason"
	case !f.test:
		return restriction(f.pkg, imported)
	}
	return ""
}

func restriction(from, to string) string {
	for _, d := range importedBy {
		if matches(d.pkg, to) && !matchesAny(d.by, from) {
			return "only " + strings.Join(d.by, ", ") + " may import it: " + d.why
		}
	}
	for _, d := range restricted {
		switch {
		case !matches(d.pkg, from):
		case matchesAny(d.allowed, to):
			return ""
		default:
			return "only " + strings.Join(d.allowed, ", ") + " may be imported there: " + d.why
		}
	}
	return ""
}

func isSibling(from, to string) bool {
	for _, n := range siblings {
		if matches(n.from, from) && matches(n.to, to) {
			return true
		}
	}
	return false
}

// layerOf returns the layer of a package, or -1. An exact name wins over a
// pattern, so that hook/hooktest can be above the rest of hook.
func layerOf(pkg string) int {
	for layer, pkgs := range layers {
		if slices.Contains(pkgs, pkg) {
			return layer
		}
	}
	for layer, pkgs := range layers {
		if matchesAny(pkgs, pkg) {
			return layer
		}
	}
	return -1
}

func packageOfImport(quoted string) (pkg string, ours bool) {
	name := unquote(quoted)
	if name == module {
		return ".", true
	}
	return strings.CutPrefix(name, module+"/")
}

func thirdParty(quoted string) (name string, third bool) {
	name = unquote(quoted)
	_, ours := packageOfImport(quoted)
	first, _, _ := strings.Cut(name, "/")
	return name, !ours && strings.Contains(first, ".")
}

func packagesOf(name string) (pkgs []string, known bool) {
	longest := ""
	for _, lib := range thirdPartyLibraries {
		if matches(lib.path+"/...", name) && len(lib.path) > len(longest) {
			longest, pkgs, known = lib.path, lib.pkgs, true
		}
	}
	return pkgs, known
}

func matchesAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}

// matches reports whether a pattern of layers matches a package.
func matches(pattern, pkg string) bool {
	base, below := strings.CutSuffix(pattern, "...")
	if !below {
		return pattern == pkg
	}
	base = path.Clean(base)
	return base == "." || pkg == base || strings.HasPrefix(pkg, base+"/")
}

func unquote(s string) string { return strings.Trim(s, `"`) }

// TestProgramsLinkNoEngines checks what a program of the SDK is made of: languages and expressions, and the
// command line, are for the command setpoint. Only tests link package setpointtest, whose explorations have expressions.
func TestProgramsLinkNoEngines(t *testing.T) {
	expectNotLinked(t, []string{".", "./examples/exchangerate"},
		"github.com/google/cel-go", "modernc.org/", "go.starlark.net/", "github.com/elastic/", "github.com/spf13/cobra")
}

// TestClusterRunsNoCommands checks what a cluster runs: nothing that only a developer needs.
func TestClusterRunsNoCommands(t *testing.T) {
	expectNotLinked(t, []string{"./cmd/setpoint-controller"},
		module+"/internal/dev/project", module+"/internal/explore", module+"/internal/testcase", module+"/internal/scaffold",
		module+"/internal/typegen", module+"/internal/workspace", module+"/internal/cli/processes", module+"/js", "k8s.io/apiserver",
		"k8s.io/apiextensions-apiserver", "k8s.io/streaming", "github.com/fsnotify")
}

// expectNotLinked expects that programs link no package whose path begins in one of some ways.
func expectNotLinked(t *testing.T, programs []string, unwanted ...string) {
	t.Helper()
	output := must.Get(exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, programs...)...).Output()).In(t)
	for pkg := range strings.Lines(string(output)) {
		for _, prefix := range unwanted {
			if strings.HasPrefix(pkg, prefix) {
				t.Errorf("%v: %s is linked", programs, strings.TrimSpace(pkg))
			}
		}
	}
}
