package crd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	kinds "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/schedule"
)

func TestNames(t *testing.T) {
	named := func(kind, plural string, more names) names {
		more.Kind, more.Plural = kind, plural
		return more
	}
	composite, composites := v1alpha1.CompositeControllerKind, v1alpha1.CompositeControllerResource
	decorator, decorators := v1alpha1.DecoratorControllerKind, v1alpha1.DecoratorControllerResource
	handler, handlers := v1alpha1.HandlerControllerKind, v1alpha1.HandlerControllerResource
	admission, admissions := v1alpha1.AdmissionControllerKind, v1alpha1.AdmissionControllerResource
	want := map[string]names{
		ourAdmission:   named(admission, admissions, names{ShortNames: []string{"spac"}, Categories: []string{"setpoint"}}),
		ourHandler:     named(handler, handlers, names{ShortNames: []string{"sphc"}, Categories: []string{"setpoint"}}),
		ourComposite:   named(composite, composites, names{ShortNames: []string{"spcc"}, Categories: []string{"setpoint"}}),
		ourDecorator:   named(decorator, decorators, names{ShortNames: []string{"spdc"}, Categories: []string{"setpoint"}}),
		theirComposite: named(composite, composites, names{ShortNames: []string{"cc", "cctl"}}),
		theirDecorator: named(decorator, decorators, names{ShortNames: []string{"dec", "decorators"}}),
	}
	got := map[string]names{}
	for name, d := range definitions(t) {
		got[name] = d.Spec.Names
		if d.Kind != "CustomResourceDefinition" || d.Spec.Scope != "Cluster" {
			t.Errorf("%s: kind %s, scope %s", name, d.Kind, d.Spec.Scope)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestVersionsKeepTheirStatus(t *testing.T) {
	for name, d := range definitions(t) {
		v := d.Spec.Versions[0]
		if v.Name != v1alpha1.GroupVersion.Version || !v.Served || !v.Storage {
			t.Errorf("%s: version %s, served %v, stored %v", name, v.Name, v.Served, v.Storage)
		}
		if _, enabled := v.Subresources["status"]; !enabled {
			t.Errorf("%s: no status subresource", name)
		}
		for _, field := range []string{"observedGeneration", "conditions", "parents", "children", "parentsInError", "paused", "finalizes", "lastError"} {
			if v.Schema.OpenAPIV3Schema.at("status", field) == nil {
				t.Errorf("%s: status.%s would be pruned", name, field)
			}
		}
	}
}

func TestBothGroupsReportAlike(t *testing.T) {
	all := definitions(t)
	for our, their := range twins {
		ours, theirs := all[our].Spec.Versions[0], all[their].Spec.Versions[0]
		if diff := cmp.Diff(ours.AdditionalPrinterColumns, theirs.AdditionalPrinterColumns); diff != "" {
			t.Errorf("%s: printer columns (-ours +theirs):\n%s", our, diff)
		}
		ourStatus, theirStatus := ours.Schema.OpenAPIV3Schema.at("status"), theirs.Schema.OpenAPIV3Schema.at("status")
		delete(ourStatus, "description")
		delete(theirStatus, "description")
		if diff := cmp.Diff(ourStatus, theirStatus); diff != "" {
			t.Errorf("%s: status (-ours +theirs):\n%s", our, diff)
		}
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	for name := range definitions(t) {
		for _, f := range schemaOf(t, name).fields("") {
			if f.schema["description"] == nil && f.path != "metadata" {
				t.Errorf("%s: %s has no description", name, f.path)
			}
		}
	}
}

// The API server turns away a CRD of a k8s.io group without this annotation.
func TestProtectedGroupIsAnnotated(t *testing.T) {
	for _, their := range twins {
		if definitions(t)[their].Metadata.Annotations["api-approved.kubernetes.io"] == "" {
			t.Errorf("%s: no api-approved.kubernetes.io annotation", their)
		}
	}
}

// testdata/KIND.metacontroller.k8s.io.txt says what the published schema asks of a spec, a line for each
// field. One keyword more here, and a manifest that works elsewhere might be refused.
func TestMetacontrollerSpecIsAsPublished(t *testing.T) {
	for _, their := range twins {
		var got strings.Builder
		for _, f := range schemaOf(t, their).at("spec").fields("spec") {
			if !strings.HasPrefix(f.path, "spec.hooks.") || strings.HasPrefix(f.path, "spec.hooks.sync") {
				got.WriteString(f.String() + "\n")
			}
		}
		want := must.Get(os.ReadFile("testdata/" + their + ".txt")).In(t)
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: spec (-published +ours):\n%s", their, diff)
		}
	}
}

// One hook is what another is, in every kind of a group.
func TestHooksAreAlike(t *testing.T) {
	more := map[string][]string{
		ourComposite:   {"finalize", "customize"},
		ourDecorator:   {"sync", "finalize", "customize"},
		theirComposite: {"finalize", "customize", "preUpdateChild", "postUpdateChild"},
		theirDecorator: {"sync", "finalize", "customize"},
	}
	for our, their := range twins {
		for _, name := range []string{our, their} {
			_, group, _ := strings.Cut(name, ".")
			want := schemaOf(t, "CompositeController."+group).at("spec", "hooks", "sync")["properties"]
			for _, hook := range more[name] {
				if diff := cmp.Diff(want, schemaOf(t, name).at("spec", "hooks", hook)["properties"]); diff != "" {
					t.Errorf("%s: %s (-sync +%s):\n%s", name, hook, hook, diff)
				}
			}
		}
	}
}

// Handlers are configured like hooks, and their controller reports the same status.
func TestHandlersAreLikeHooks(t *testing.T) {
	composite, handler := schemaOf(t, ourComposite), schemaOf(t, ourHandler)
	for name, pair := range map[string][2]schema{
		"webhook":         {composite.at("spec", "hooks", "sync", "webhook"), handler.at("spec", "handlers", "webhook")},
		"endpointConfigs": {composite.at("spec", "endpointConfigs"), handler.at("spec", "endpointConfigs")},
		"status":          {composite.at("status"), handler.at("status")},
	} {
		for _, one := range pair {
			delete(one, "description")
		}
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-of a composite +of a handler):\n%s", name, diff)
		}
	}
}

// The defaults that the API server fills in are those that code building objects in Go relies on.
func TestDefaultsMatchTheirConstants(t *testing.T) {
	ours, theirs := schemaOf(t, ourComposite).at("spec"), schemaOf(t, theirComposite).at("spec")
	decorator, backoff := schemaOf(t, ourDecorator).at("spec"), schemaOf(t, ourHandler).at("spec", "handlers", "backoff")
	tests := map[string]struct {
		schema schema
		want   string
	}{
		"update method":        {ours.at("childResources", "updateStrategy", "method"), string(v1alpha1.DefaultUpdateMethod)},
		"of attachments":       {decorator.at("attachments", "updateStrategy", "method"), string(v1alpha1.DefaultUpdateMethod)},
		"apply":                {ours.at("childResources", "apply"), string(v1alpha1.DefaultApplyStrategy)},
		"apply of attachments": {decorator.at("attachments", "apply"), string(v1alpha1.DefaultApplyStrategy)},
		"hook version":         {ours.at("hooks", "sync", "version"), string(v1alpha1.DefaultHookVersion)},
		"decoding":             {ours.at("hooks", "sync", "webhook", "decoding"), string(v1alpha1.DefaultDecoding)},
		"timeout":              {ours.at("hooks", "sync", "webhook", "timeout"), v1alpha1.DefaultTimeout.String()},
		"timeout of inline":    {ours.at("hooks", "sync", "inline", "timeout"), v1alpha1.DefaultTimeout.String()},
		"timeout of exec":      {ours.at("hooks", "sync", "exec", "timeout"), v1alpha1.DefaultTimeout.String()},
		"protocol":             {ours.at("hooks", "sync", "webhook", "service", "protocol"), string(v1alpha1.DefaultProtocol)},
		"backoff":              {backoff.at("initial"), v1alpha1.DefaultBackoffInitial.String()},
		"longest backoff":      {backoff.at("max"), v1alpha1.DefaultBackoffMax.String()},
		"theirs: hook version": {theirs.at("hooks", "sync", "version"), string(metacontroller.DefaultHookVersion)},
	}
	for name, test := range tests {
		if test.schema["default"] != test.want {
			t.Errorf("%s: the schema says %v, the constant %q", name, test.schema["default"], test.want)
		}
	}
}

// ruleOf is the first pattern in the rules of a field of a handler.
func ruleOf(t *testing.T, names ...string) *regexp.Regexp {
	t.Helper()
	s := schemaOf(t, ourHandler).at(append([]string{"spec", "handlers"}, names...)...)
	rules, _ := s["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		one, _ := rule.(map[string]any)
		text, _ := one["rule"].(string)
		if found := regexp.MustCompile(`^!?self[.]matches[(]r?["'](.*?)["'][)]`).FindStringSubmatch(text); found != nil {
			return regexp.MustCompile(found[1])
		}
	}
	t.Fatalf("no pattern for %v in %v", names, rules)
	return nil
}

// Fault H12: the API server refuses what is no cron expression. What it accepts and the
// calendar does not, such as the 30th of February, the condition Accepted reports.
func TestScheduleRule(t *testing.T) {
	rule := ruleOf(t, "schedule")
	for _, expression := range []string{
		"30 4 * * mon-fri", "*/20 * * * *", "0 0 29 2 *", "@hourly", " @daily ", "TZ=Europe/Berlin 0 6 * * *", "CRON_TZ=Asia/Tokyo  @daily",
		"0,15,30-45/5 0-23 1,31 JAN-Dec ?", "59 23 31 12 6", "05 04 01 02 00", "1/7 * * jun,jul SUN", "TZ=Etc/GMT+3 0 0 * * *", "0\t0  * * *",
	} {
		if _, err := schedule.Parse(expression); err != nil || !rule.MatchString(expression) {
			t.Errorf("%q: the calendar says %v, the rule %v", expression, err, rule.MatchString(expression))
		}
	}
	for _, expression := range []string{
		"61 * * * *", "* 24 * * *", "* * 32 * *", "* * 0 * *", "* * * 13 *", "* * * 0 *", "* * * * 7", "* * * *", "0 0 * * * *", "every tuesday",
		"@every 1h", "@sometimes", "", " ", "TZ=UTC", "*/0 * * * *", "1- * * * *", "* * * * tues", "1-2-3 * * * *",
	} {
		if _, err := schedule.Parse(expression); err == nil || rule.MatchString(expression) {
			t.Errorf("%q: the calendar says %v, the rule %v", expression, err, rule.MatchString(expression))
		}
	}
}

// Fault H12: what the rule of a duration accepts can be converted, so that no rule ends in
// an error of conversion.
func TestDurationRules(t *testing.T) {
	for _, names := range [][]string{{"every"}, {"debounce"}, {"initialDelay"}, {"daemon", "stopTimeout"}, {"backoff", "max"}, {"webhook", "timeout"}} {
		rule := ruleOf(t, names...)
		for _, text := range []string{
			"1s", "500ms", "1h30m", "1h30m0s", "1.5h", "100ns", "3us", "3µs", "0s", "0.5s", "999999h9999999m999999999s", "999999999999999us",
		} {
			if _, err := time.ParseDuration(text); err != nil || !rule.MatchString(text) {
				t.Errorf("%s: %q: %v, the rule says %v", names, text, err, rule.MatchString(text))
			}
		}
		for _, text := range []string{"5x", "soon", "5", "-1s", "1 s", "1d", "9999999h", "9999999999h", ".s", strings.Repeat("9", 20) + "ns"} {
			if rule.MatchString(text) {
				t.Errorf("%s: the rule accepts %q", names, text)
			}
		}
	}
}

// schema is an OpenAPI schema as it stands in a CRD.
type schema map[string]any

// field is one property somewhere in a schema; items of a list are at path[].
type field struct {
	path     string
	required bool
	schema   schema
}

// at returns the schema of a property, given the names that lead to it.
func (s schema) at(names ...string) schema {
	for _, name := range names {
		if items, isList := s["items"].(map[string]any); isList {
			s = items
		}
		properties, _ := s["properties"].(map[string]any)
		next, found := properties[name].(map[string]any)
		if !found {
			return nil
		}
		s = next
	}
	return s
}

// fields lists all properties below path, parents before children, in order of their names.
func (s schema) fields(path string) []field {
	if items, isList := s["items"].(map[string]any); isList {
		return schema(items).fields(path + "[]")
	}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	var all []field
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property := schema(properties[name].(map[string]any))
		below := strings.TrimPrefix(path+"."+name, ".")
		all = append(all, field{below, slices.Contains(required, any(name)), property})
		all = append(all, property.fields(below)...)
	}
	return all
}

// String tells in one line what the schema asks of a field, less its description.
func (f field) String() string {
	words := []string{f.path, fmt.Sprint(f.schema["type"])}
	if f.required {
		words = append(words, "required")
	}
	words = append(words, f.schema.keywords("")...)
	if items, isList := f.schema["items"].(map[string]any); isList {
		words = append(words, schema(items).keywords("items.")...)
	}
	return strings.Join(words, " ")
}

// structural are the keywords that the listing of fields tells by itself.
var structural = []string{"description", "type", "properties", "items", "required"}

func (s schema) keywords(prefix string) []string {
	var words []string
	for _, keyword := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(structural, keyword) {
			words = append(words, fmt.Sprintf("%s%s=%v", prefix, keyword, s[keyword]))
		}
	}
	return words
}

// The CRDs there are, by kind and group.
const (
	ourComposite   = "CompositeController.setpoint.dev"
	theirComposite = "CompositeController.metacontroller.k8s.io"
	ourDecorator   = "DecoratorController.setpoint.dev"
	ourHandler     = "HandlerController.setpoint.dev"
	ourAdmission   = "AdmissionController.setpoint.dev"
	theirDecorator = "DecoratorController.metacontroller.k8s.io"
)

// twins pairs the kinds of our group with those of theirs.
var twins = map[string]string{ourComposite: theirComposite, ourDecorator: theirDecorator}

// definition is as much of a CustomResourceDefinition as the tests look at.
type definition struct {
	Kind     string
	Metadata struct{ Annotations map[string]string }
	Spec     struct {
		Group    string
		Scope    string
		Names    names
		Versions []version
	}
}

type names struct {
	Kind, Plural           string
	ShortNames, Categories []string
}

type version struct {
	Name                     string
	Served, Storage          bool
	Subresources             map[string]any
	AdditionalPrinterColumns []map[string]any
	Schema                   struct{ OpenAPIV3Schema schema }
}

// definitions reads all CRDs, by kind and group.
func definitions(t *testing.T) map[string]definition {
	t.Helper()
	manifests := crd.All()
	byName := map[string]definition{}
	for _, manifest := range manifests {
		var d definition
		must.Succeed(t, yaml.Unmarshal(manifest, &d))
		byName[d.Spec.Names.Kind+"."+d.Spec.Group] = d
	}
	return byName
}

// schemaOf returns the schema of the only version of a kind.
func schemaOf(t *testing.T, name string) schema {
	t.Helper()
	d, found := definitions(t)[name]
	if !found || len(d.Spec.Versions) != 1 {
		t.Fatalf("want one version of %s, got %d", name, len(d.Spec.Versions))
	}
	return d.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// samples reads the objects of testdata/KIND.GROUP.yaml, each as its YAML.
func samples(t *testing.T, name string) []string {
	t.Helper()
	data := must.Get(os.ReadFile("testdata/" + name + ".yaml")).In(t)
	return strings.Split(string(data), "\n---\n")
}

// Nothing of an object is refused, lost or changed by going through its Go type.
func TestSamplesRoundTrip(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, metacontroller.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	for name := range definitions(t) {
		for _, sample := range samples(t, name) {
			want := decode(t, sample)
			object := must.Get(scheme.New(kinds.FromAPIVersionAndKind(want["apiVersion"].(string), want["kind"].(string)))).In(t)
			if err := yaml.UnmarshalStrict([]byte(sample), object); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, encode(t, object.DeepCopyObject())); diff != "" {
				t.Errorf("%s (-sample +object):\n%s", name, diff)
			}
		}
	}
}

// The samples are only as good as they are complete.
func TestSamplesUseEveryField(t *testing.T) {
	for name := range definitions(t) {
		used := map[string]bool{}
		for _, sample := range samples(t, name) {
			collect(used, "", decode(t, sample))
		}
		for _, f := range schemaOf(t, name).fields("") {
			if !used[f.path] {
				t.Errorf("%s: no sample has %s", name, f.path)
			}
		}
	}
}

// collect notes the path of every field of a value, in the notation of field.path.
func collect(used map[string]bool, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			below := name
			if path != "" {
				below = path + "." + name
			}
			used[below] = true
			collect(used, below, value[name])
		}
	case []any:
		for _, item := range value {
			collect(used, path+"[]", item)
		}
	}
}

func decode(t *testing.T, manifest string) map[string]any {
	t.Helper()
	var tree map[string]any
	must.Succeed(t, yaml.Unmarshal([]byte(manifest), &tree))
	return tree
}

func encode(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	data := must.Get(json.Marshal(object)).In(t)
	return decode(t, string(data))
}
