package scaffold_test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/scaffold"
)

var update = flag.Bool("update", false, "write the folders in testdata anew")

func shop(language string) scaffold.Options {
	return scaffold.Options{Name: "guitar-shop", Language: language, Kind: "Shop", Plural: "shops", Group: "example.com", Version: "v1", Children: []string{"configmaps"}}
}

// stored is the name of a file in testdata, where a go.mod would make a module of its own.
func stored(language, name string) string {
	if name == "go.mod" {
		name += ".txt"
	}
	return filepath.Join("testdata", language, name)
}

func TestFiles(t *testing.T) {
	for _, language := range scaffold.Languages() {
		o := shop(language)
		if language == "go" {
			o.Children = scaffold.ChildKinds()
		}
		files := must.Get(scaffold.Files(o)).In(t)
		if *update {
			must.Succeed(t, os.RemoveAll(filepath.Join("testdata", language)))
			must.Succeed(t, scaffold.Write(".", storedFiles(language, files)))
		}
		for name, got := range storedFiles(language, files) {
			want, err := os.ReadFile(name)
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got), -update writes it:\n%s", name, diff)
			}
		}
	}
}

func storedFiles(language string, files map[string][]byte) map[string][]byte {
	all := map[string][]byte{}
	for name, text := range files {
		if !strings.HasPrefix(name, "setpoint/") { // A copy of the package in js.
			all[stored(language, name)] = text
		}
	}
	return all
}

var setpoint = flag.String("setpoint", "", "the setpoint with a control plane, which compiles and runs the operators; it takes minutes with cold caches")

// The program in Go compiles, passes its test, and has the CRD that go generate writes. make test-all
// runs it.
func TestGo(t *testing.T) {
	if *setpoint == "" {
		return
	}
	run(t, "go", "vet", "./testdata/go")
	run(t, "go", "test", "./testdata/go")
	checkCRD(t, "testdata/go")
	dir := must.Get(os.MkdirTemp("testdata", "cluster")).In(t) //nolint:usetesting // It must be in this module to be compiled.
	defer os.RemoveAll(dir)
	o := shop("go")
	o.Cluster = true
	files := must.Get(scaffold.Files(o)).In(t)
	delete(files, "go.mod") // It belongs to this module.
	must.Succeed(t, scaffold.Write(dir, files))
	run(t, "go", "vet", "./"+dir)
	checkCRD(t, dir)
}

func checkCRD(t *testing.T, dir string) {
	t.Helper()
	crd := run(t, "go", "tool", "-modfile=../../tools/go.mod", "controller-gen", "crd", "paths=./"+dir, "output:crd:stdout")
	want := must.Get(os.ReadFile(filepath.Join(dir, "example.com_shops.yaml"))).In(t)
	if diff := cmp.Diff(crd, string(want)); diff != "" {
		t.Errorf("%s: CRD (-go generate +setpoint init):\n%s", dir, diff)
	}
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), args[0], args[1:]...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // As the binaries are built, so that nothing is compiled twice.
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// setpoint dev runs the operators, which pass their tests on its control plane. The one in TypeScript needs a newer
// Node.js than others of our tests.
func TestDev(t *testing.T) {
	if *setpoint == "" {
		return
	}
	o := shop("javascript")
	o.Cluster = true
	files := must.Get(scaffold.Files(o)).In(t)
	cluster := t.TempDir()
	must.Succeed(t, scaffold.Write(cluster, files))
	for _, dir := range []string{"testdata/go", "testdata/javascript", "testdata/python", "testdata/starlark", cluster} {
		out := run(t, *setpoint, "dev", dir, "--dashboard-address=", "--", "sh", filepath.Join(dir, "test.sh"))
		if !strings.Contains(out, "passed\n") {
			t.Errorf("%s: %s", dir, out)
		}
	}
}

// A kind that exists has a manifest, and no field of ours.
func TestExistingKind(t *testing.T) {
	for _, language := range scaffold.Languages() {
		o := shop(language)
		o.CRD, o.Sample = "crd: given\n", "sample: given\n"
		o.Children = scaffold.ChildKinds()
		files, err := scaffold.Files(o)
		if err != nil {
			t.Fatalf("%s: %v", language, err)
		}
		all := string(slices.Concat(slices.Collect(maps.Values(files))...))
		if !strings.Contains(all, "crd: given\n") || !strings.Contains(all, "sample: given\n") || strings.Contains(all, "spec.message") || strings.Contains(all, "Status") {
			t.Errorf("%s: %s", language, all)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(*scaffold.Options){
		`the name "Shop": must be lower-case letters, digits and hyphens`:  func(o *scaffold.Options) { o.Name = "Shop" },
		`the name "../shop": must be lower-case letters`:                   func(o *scaffold.Options) { o.Name = "../shop" },
		`the language "perl": must be one of javascript, starlark, python`: func(o *scaffold.Options) { o.Language = "perl" },
		`the kind "shop": must be a word in CamelCase, such as Team`:       func(o *scaffold.Options) { o.Kind = "shop" },
		`the plural "sh ops": `: func(o *scaffold.Options) { o.Plural = "sh ops" },
		`the group "example": must be a domain, such as example.com`: func(o *scaffold.Options) { o.Group = "example" },
		`no kinds of children; such as configmaps`:                   func(o *scaffold.Options) { o.Children = nil },
		`the kind of children "pods": must be one of configmaps, `:   func(o *scaffold.Options) { o.Children = []string{"pods"} },
		`the kind of children "services" is given twice`:             func(o *scaffold.Options) { o.Children = []string{"services", "services"} },
	} {
		o := shop("javascript")
		change(&o)
		if _, err := scaffold.Files(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestNoFileIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	files := map[string][]byte{"a": []byte("# mark\n1"), "b/c.sh": []byte("2")}
	must.Succeed(t, scaffold.Write(dir, files))
	info, err := os.Stat(filepath.Join(dir, "b", "c.sh"))
	if err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("c.sh: %v, %v", info.Mode(), err)
	}
	if err := scaffold.Write(dir, files); err == nil || !strings.Contains(err.Error(), "a, ") || !strings.HasSuffix(err.Error(), "file already exists; nothing was written") {
		t.Errorf("the second time: %v", err)
	}
	if err := scaffold.Rewrite(dir, map[string][]byte{"a": []byte("# mark\n3"), "d": nil}, "# mark"); err != nil {
		t.Errorf("generated before: %v", err)
	}
	if err := scaffold.Rewrite(dir, files, "# mark"); err == nil {
		t.Error("b/c.sh was replaced")
	}
}
