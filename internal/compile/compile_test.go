package compile

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var update = flag.Bool("update", false, "write what the manifests in testdata compile to into their last file")

// servedKinds are the resources of the fake API server.
func servedKinds() []object.Resource {
	return []object.Resource{
		{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true},
		{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true},
		{Version: "v1", Plural: "namespaces", Kind: "Namespace", Status: true},
		{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true},
		{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true, Status: true},
		{Group: "apps", Version: "v1beta1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true},
		{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true, Status: true, Custom: true},
		{Group: "example.org", Version: "v1", Plural: "kiosks", Kind: "Kiosk", Namespaced: true, Custom: true},
		{Group: "example.org", Version: "v1", Plural: "towns", Kind: "Town", Status: true, Custom: true},
	}
}

func resolve(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	if apiVersion == "down/v1" {
		return object.Resource{}, errors.New("connection refused")
	}
	for _, resource := range servedKinds() {
		if resource.APIVersion() == apiVersion && resource.Plural == plural {
			return resource, nil
		}
	}
	return object.Resource{}, fmt.Errorf("%s of %s: %w", plural, apiVersion, ErrNotServed)
}

// statusOf returns a full status for shops.
func statusOf(_ context.Context, resource object.Resource) (Status, error) {
	shops := resource.Plural == "shops"
	return Status{Conditions: shops, Records: shops}, nil
}

// TestCompile reads controller.yaml and compares the program, or the error, with program.txt. A
// comment before the files is the flag of `setpoint run`.
func TestCompile(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := must.Get(txtar.ParseFile(path)).In(t)
			last := &archive.Files[len(archive.Files)-1]
			got := compiled(t, archive)
			if got == string(last.Data) {
				return
			}
			if !*update {
				t.Fatalf("got\n%s\nwant\n%s", got, last.Data)
			}
			last.Data = []byte(got)
			must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
		})
	}
}

func compileText(t *testing.T, manifest []byte, namespaces ...string) (Kind, *object.Object, *Compiled, error) {
	t.Helper()
	o := parsed(t, manifest)
	kind := kindNamed(t, o)
	env := environment(t)
	env.Namespaces = namespaces
	c, err := kind.Compile(t.Context(), o, env)
	return kind, o, c, err
}

func parsed(t *testing.T, manifest []byte) *object.Object {
	t.Helper()
	text := must.Get(yaml.YAMLToJSON(manifest)).In(t)
	return must.Get(object.Parse(text)).In(t)
}

// compiled returns the program of a manifest as text.
func compiled(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	var namespaces []string
	if list, limited := strings.CutPrefix(string(archive.Comment), "--namespaces="); limited {
		namespaces = strings.Split(strings.TrimSpace(list), ",")
	}
	kind, o, c, err := compileText(t, archive.Files[0].Data, namespaces...)
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return fmt.Sprintf("refused: %s\n%s\n", refusal.Reason, err)
	case err != nil:
		return fmt.Sprintf("not now\n%s\n", err)
	}
	defer c.Release()
	switch {
	case c.Admission != nil:
		return describeAdmission(c)
	case c.Handlers != nil:
		return describeHandlers(c)
	}
	return describe(c, must.Get(kind.neutral(o, environment(t))).In(t))
}

// environment has an API server that cannot be reached.
func environment(t *testing.T) Environment {
	t.Helper()
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: "http://127.0.0.1:1", ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{}, NegotiatedSerializer: serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion(),
	}})).In(t)
	cached := cache.New(client, cache.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(cached.Close)
	return Environment{Resolve: resolve, StatusOf: statusOf, PodNamespace: "setpoint-system", Store: cached, Settings: Settings{Workers: 4, Namespace: "setpoint-system", FieldManager: "metacontroller", Inline: compileWords, Exec: openNothing, Expressions: expression.Compile}}
}

func kindNamed(t *testing.T, o *object.Object) Kind {
	t.Helper()
	for _, kind := range Kinds() {
		if kind.Resource.APIVersion() == o.APIVersion() && kind.Resource.Kind == o.Kind() {
			return kind
		}
	}
	t.Fatalf("%s of %s is not a kind of controller", o.Kind(), o.APIVersion())
	return Kind{}
}

func describe(c *Compiled, d *neutralSpec) string {
	var text strings.Builder
	line := lineOf(&text)
	for _, p := range c.Programs {
		line("parent", describeParent(p))
	}
	describeProgram(line, c.Programs[0])
	for _, h := range d.hooks.all() {
		line(strings.Split(h.field, ".")[2], describeHook(h))
	}
	describeRest(line, c)
	return text.String()
}

// lineOf prints a field.
func lineOf(text *strings.Builder) func(name string, value any) {
	return func(name string, value any) {
		if !slices.Contains([]string{"", "[]", "false", "0s", "0"}, fmt.Sprint(value)) {
			fmt.Fprintf(text, "%-17s %v\n", name, value)
		}
	}
}

// describeRest prints what controllers of all kinds have.
func describeRest(line func(string, any), c *Compiled) {
	line("hook addresses", c.HookAddresses)
	line("acts as", c.Account)
	line("suspended", c.Suspended)
	for _, note := range c.Notes {
		line("note", note)
	}
}

func describeParent(p composite.Program) string {
	text := p.Parent.String()
	for _, selection := range p.Selections {
		text += fmt.Sprintf(" [%v]", selection)
	}
	if p.Namespace != "" {
		text += " in " + p.Namespace
	}
	if p.SyncOnStatusChange {
		text += ", status wakes"
	}
	if p.Conditions {
		text += ", conditions"
	}
	if p.Customize != nil {
		text += fmt.Sprintf(", related in %s, namespaced %v", p.Scope.Version, p.Scope.Namespaced)
	}
	if p.Namespaces != nil {
		text += fmt.Sprintf(", limited to %v", p.Namespaces)
	}
	return text
}

// describeProgram prints what all programs of a controller have.
func describeProgram(line func(string, any), p composite.Program) {
	for _, rule := range p.Children {
		text := fmt.Sprintf("%s %s %s", rule.Resource, rule.Method, rule.Strategy)
		if rule.Method.Rolling() {
			text += fmt.Sprintf(" %v %d at once", rule.StatusChecks, max(rule.MaxUnavailable, 1))
			for _, check := range rule.ExpressionChecks {
				text += ", " + check.Message
			}
			if rule.Pause != nil {
				text += ", paused by " + rule.Pause.Field
			}
		}
		line("child", text)
	}
	line("name", p.Name)
	line("finalizer", p.Finalizer)
	line("manager", p.Manager)
	line("failure reason", p.FailureReason)
	line("ignores", map[bool]string{true: "namespaces of cluster-scoped children, undeclared children"}[p.Lenient])
	line("mark", strings.Trim(p.Mark.Key+"="+p.Mark.Value, "="))
	line("generate selector", p.GenerateSelector)
	line("revisions", fmt.Sprint(p.Revisions.FieldPaths, " in ", p.Revisions.Namespace))
	line("resync", p.Resync)
	line("last applied", fmt.Sprint(p.LastApplied, ", outline ", p.OmitValues))
	line("workers", p.Workers)
}

func describeHook(h *hookConfig) string {
	to := h.webhook
	switch {
	case h.inline != nil:
		return fmt.Sprintf("%s %s, %s, timeout %s", h.wire.Version, describeInline(h.inline), h.wire.Decoding, h.timeout)
	case h.exec != nil:
		return fmt.Sprintf("%s %q, %s, timeout %s", h.wire.Version, h.exec, h.wire.Decoding, h.timeout)
	}
	text := fmt.Sprintf("%s %s, %s, timeout %s", h.wire.Version, to.url, h.wire.Decoding, h.timeout)
	if to.etag.Enabled {
		text += fmt.Sprintf(", etag for %s", to.etag.Timeout)
	}
	if !to.credentials.IsZero() {
		settings, _ := json.Marshal(to.credentials)
		text += ", " + absent.ReplaceAllString(string(settings), "")
	}
	return text
}

// absent are settings that are not set.
var absent = regexp.MustCompile(`"\w+":(null|""),?|,"\w+":(null|"")`)

// Fault M6: the controller in a request does not change with its status, unless the controller asks
// for full objects. Metacontroller sends an empty status.
func TestControllerAsHooksSeeIt(t *testing.T) {
	const (
		target  = `"parentResource":{"apiVersion":"example.org/v1","resource":"shops"},"hooks":{"sync":{"webhook":{"url":"http://hook"}}}`
		managed = `,"managedFields":[{"manager":"kubectl"}]`
		status  = `,"status":{"parents":1}`
		opened  = `,"annotations":{"setpoint.dev/full-objects":"true"}`
	)
	write := func(metadata, spec, status string) string {
		return `{"metadata":{"name":"shops","generation":3` + metadata + `},"spec":{` + target + spec + `}` + status + `}`
	}
	const full = `,"fullObjects":true`
	published, _ := KindNamed("metacontroller.k8s.io/v1alpha1", "CompositeController")
	ours, _ := KindNamed("setpoint.dev/v1alpha1", "CompositeController")
	for name, c := range map[string]struct {
		kind        Kind
		given, want string
		whole       bool
	}{
		"published":       {published, write(managed, "", status), write("", "", `,"status":{}`), false},
		"published, full": {published, write(opened+managed, "", status), write(opened+managed, "", status), true},
		"ours":            {ours, write(opened+managed, "", status), write(opened, "", ""), false},
		"ours, full":      {ours, write(managed, full, status), write(managed, full, status), true},
	} {
		t.Run(name, func(t *testing.T) {
			o := must.Get(object.ParseWithManagedFields([]byte(c.given), "", "")).In(t)
			compiled := must.Get(c.kind.Compile(t.Context(), o, environment(t))).In(t)
			defer compiled.Release()
			program := compiled.Programs[0]
			if got := string(program.Object); got != c.want || program.FullObjects != c.whole {
				t.Errorf("got %s, whole %v, want %s", got, program.FullObjects, c.want)
			}
		})
	}
}

func TestUnknownKinds(t *testing.T) {
	names := map[string]bool{}
	for _, kind := range Kinds() {
		if kind.Name == "" || names[kind.Name] || kind.compile == nil || !kind.Resource.Status || kind.Resource.Namespaced {
			t.Errorf("%+v", kind.Resource)
		}
		names[kind.Name] = true
	}
}
