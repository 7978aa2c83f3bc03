package related

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The four scopes, and one that is limited to namespaces.
var (
	limited      = Scope{Version: hook.V2, Namespaced: true, Namespaces: []string{"home", "away"}}
	v1Namespaced = Scope{Version: hook.V1, Namespaced: true}
	v1Cluster    = Scope{Version: hook.V1}
	v2Namespaced = Scope{Version: hook.V2, Namespaced: true}
	v2Cluster    = Scope{Version: hook.V2}
)

func TestInvalidRules(t *testing.T) {
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for what, test := range map[string]struct {
		scope Scope
		rule  hook.RelatedRule
		want  string
	}{
		"no version":            {v2Cluster, hook.RelatedRule{Resource: "pods"}, "apiVersion: required"},
		"no resource":           {v2Cluster, hook.RelatedRule{APIVersion: "v1"}, "resource: required"},
		"names and labels":      {v2Cluster, of(configMaps, named("a"), labelled("a=1")), "names: cannot be combined with labelSelector"},
		"names and spaces":      {v2Cluster, of(configMaps, named("a"), near("a=1")), "names: cannot be combined with namespaceSelector"},
		"namespace and spaces":  {v2Cluster, of(configMaps, in("a"), near("a=1")), "namespace: cannot be combined with namespaceSelector"},
		"operator":              {v2Cluster, of(configMaps, func(r *hook.RelatedRule) { r.LabelSelector = broken }), `labelSelector: "Near" is not`},
		"namespace operator":    {v2Cluster, of(configMaps, func(r *hook.RelatedRule) { r.NamespaceSelector = broken }), `namespaceSelector: "Near" is not`},
		"label":                 {v2Cluster, of(configMaps, labelled("a=b c")), "labelSelector: "},
		"spaces of no spaces":   {v2Cluster, of(widgets, near("a=1")), "namespaceSelector: widgets are cluster-scoped"},
		"v1: another namespace": {v1Namespaced, of(configMaps, in("other")), `namespace: "other" is not the namespace of the parent, "home"`},
		"v1: spaces":            {v1Namespaced, of(configMaps, near("a=1")), "namespaceSelector: a customize hook of version v1"},
		"beyond the limits":     {limited, of(configMaps, in("other")), `namespace: "other" is not one of the namespaces that Setpoint is limited to, home, away`},
		"kind":                  {v2Cluster, hook.RelatedRule{APIVersion: "v1", Resource: "nets"}, "resource: find nets: nets of v1: not served"},
	} {
		t.Run(what, func(t *testing.T) {
			d := newFixture(t, test.scope)
			err := d.Set(t.Context(), keyFrom("home/parent"), []hook.RelatedRule{of(configMaps), test.rule})
			var fault *RuleError
			if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), "relatedResources[1]."+test.want) {
				t.Fatalf("got %v, want relatedResources[1].%s", err, test.want)
			}
			if errors.Is(err, errNotServed) != (what == "kind") {
				t.Fatalf("got %v", err)
			}
			if open := d.Watches(); len(open) > 0 {
				t.Fatalf("an invalid rule opened %v", open)
			}
		})
	}
}

// A hook cannot open any number of watches.
func TestLimitsOfRules(t *testing.T) {
	names := make([]string, maxNames/2+1)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i)
	}
	half, secrets := names[1:], object.Secrets
	for what, test := range map[string]struct {
		rules []hook.RelatedRule
		want  string
	}{
		"as many names as allowed": {[]hook.RelatedRule{of(secrets, named(half...)), of(secrets, in("a"), named(half...))}, ""},
		"one name more": {[]hook.RelatedRule{of(secrets, named(half...)), of(secrets, in("a"), named(names...))},
			"relatedResources[1].names: the rules up to this one have 1001 names; at most 1000 are allowed: select the objects by labelSelector"},
		"as many rules as allowed": {make([]hook.RelatedRule, maxRules), ""},
		"one rule more": {make([]hook.RelatedRule, maxRules+1),
			"relatedResources: has 1001 rules; at most 1000 are allowed: select more objects with each rule, by labelSelector"},
	} {
		got := ""
		if err := checkLimits(test.rules); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", what, got, test.want)
		}
	}
}

func TestInvalidRulesKeepTheFormerOnes(t *testing.T) {
	d := newFixture(t, v1Namespaced)
	d.api.put(configMap("home/a", "1"))
	d.set("home/parent", of(configMaps, named("a")))
	d.expectEnqueued("home/parent: listed")
	if err := d.Set(t.Context(), keyFrom("home/parent"), []hook.RelatedRule{of(configMaps, in("other"))}); err == nil {
		t.Fatal("no error")
	}
	d.api.put(configMap("home/a", "2"))
	d.expectEnqueued("home/parent: ConfigMap home/a")
	d.expect("home/parent", "ConfigMap.v1: home/a=2")
}

// The cases list what each form of rule selects.
func TestRulesSelect(t *testing.T) {
	kinds := map[string]object.Resource{"configmaps": configMaps, "widgets": widgets}
	for what, test := range map[string]struct {
		scope  Scope
		parent string
		kind   string
		form   []func(*hook.RelatedRule)
		want   string
	}{
		"all":                                  {v2Cluster, "p", "configmaps", nil, "away/a away/b home/a home/b"},
		"all, empty selector":                  {v2Cluster, "p", "configmaps", form(labelled()), "away/a away/b home/a home/b"},
		"labels":                               {v2Cluster, "p", "configmaps", form(labelled("app=x")), "away/a home/a"},
		"a namespace":                          {v2Cluster, "p", "configmaps", form(in("home")), "home/a home/b"},
		"a namespace, labels":                  {v2Cluster, "p", "configmaps", form(in("home"), labelled("app=x")), "home/a"},
		"names":                                {v2Cluster, "p", "configmaps", form(named("b", "none", "b")), "away/b home/b"},
		"many names":                           {v2Cluster, "p", "configmaps", form(named("a", "c", "d", "e", "f")), "away/a home/a"},
		"a namespace, names":                   {v2Cluster, "p", "configmaps", form(in("away"), named("b")), "away/b"},
		"no name, as a hook may make it":       {v2Cluster, "p", "configmaps", form(named("")), ""},
		"a name and none":                      {v2Cluster, "p", "configmaps", form(named("", "a")), "away/a home/a"},
		"no names":                             {v2Cluster, "p", "configmaps", form(named()), "away/a away/b home/a home/b"},
		"namespaces":                           {v2Cluster, "p", "configmaps", form(near("team=blue")), "away/a away/b"},
		"namespaces, labels":                   {v2Cluster, "p", "configmaps", form(near("team=blue"), labelled("app=x")), "away/a"},
		"all namespaces":                       {v2Cluster, "p", "configmaps", form(near(), labelled("app=x")), "away/a home/a"},
		"cluster-scoped":                       {v2Cluster, "p", "widgets", nil, "a b"},
		"cluster-scoped, labels":               {v2Cluster, "p", "widgets", form(labelled("app=x")), "a"},
		"cluster-scoped, names":                {v2Cluster, "p", "widgets", form(named("b")), "b"},
		"cluster-scoped, a namespace":          {v2Cluster, "p", "widgets", form(in("home"), named("b")), "b"},
		"limited":                              {limited, "home/p", "configmaps", nil, "away/a away/b home/a home/b"},
		"limited, a namespace":                 {limited, "home/p", "configmaps", form(in("away"), named("b")), "away/b"},
		"limited, namespaces":                  {limited, "home/p", "configmaps", form(near("team=blue")), "away/a away/b"},
		"limited, cluster-scoped":              {limited, "home/p", "widgets", form(labelled("app=x")), "a"},
		"v1, cluster-scoped parent":            {v1Cluster, "p", "configmaps", form(near("team=blue")), "away/a away/b"},
		"v1, cluster-scoped parent, namespace": {v1Cluster, "p", "configmaps", form(in("away"), named("b")), "away/b"},
		"v2, namespaced parent":                {v2Namespaced, "home/p", "configmaps", form(labelled("app=x")), "away/a home/a"},
		"v2, namespaced parent, namespaces":    {v2Namespaced, "home/p", "configmaps", form(near("team=blue")), "away/a away/b"},
		"v1, namespaced parent":                {v1Namespaced, "home/p", "configmaps", nil, "home/a home/b"},
		"v1, namespaced parent, labels":        {v1Namespaced, "home/p", "configmaps", form(labelled("app=x")), "home/a"},
		"v1, namespaced parent, names":         {v1Namespaced, "home/p", "configmaps", form(named("b")), "home/b"},
		"v1, namespaced parent, its namespace": {v1Namespaced, "home/p", "configmaps", form(in("home"), named("b")), "home/b"},
		"v1, namespaced parent, of no spaces":  {v1Namespaced, "home/p", "widgets", form(labelled("app=x")), "a"},
		"v1, namespaced parent, of no spaces, another namespace": {v1Namespaced, "home/p", "widgets", form(in("away"), named("a")), "a"},
	} {
		t.Run(what, func(t *testing.T) {
			d := newFixture(t, test.scope)
			d.api.put(namespace("home", "team=red"))
			d.api.put(namespace("away", "team=blue"))
			for _, ns := range []string{"home/", "away/"} {
				d.api.put(configMap(ns+"a", "", "app=x"))
				d.api.put(configMap(ns+"b", "", "app=y"))
			}
			if test.scope.Namespaces != nil {
				d.api.put(configMap("far/a", "", "app=x"))
			}
			d.api.put(widget("a", "", "app=x"))
			d.api.put(widget("b", "", "app=y"))
			kind := kinds[test.kind]
			d.set(test.parent, of(kind, test.form...))
			d.waitSynced(test.parent)
			want := kind.Kind + "." + kind.APIVersion() + ":"
			for each := range strings.FieldsSeq(test.want) {
				want += " " + each + "="
			}
			d.expect(test.parent, want)
		})
	}
}

func form(parts ...func(*hook.RelatedRule)) []func(*hook.RelatedRule) { return parts }

// If a limited controller has many rules for a kind, they share one watch for each namespace, not
// one for all.
func TestLimitedRulesWatchNoMore(t *testing.T) {
	d := newFixture(t, limited)
	var rules []hook.RelatedRule
	for i := range 2 * maxNarrowWatches {
		rules = append(rules, of(configMaps, labelled("n="+strconv.Itoa(i))))
	}
	d.set("home/parent", rules...)
	d.waitSynced("home/parent")
	for _, w := range d.Watches() {
		if w.Selection.Namespace == "" {
			t.Errorf("watches %s", w.Selection)
		}
	}
}

// What rules read is known before a watch opens, so that forbidden rules open none.
func TestReadsOf(t *testing.T) {
	for name, c := range map[string]struct {
		rule hook.RelatedRule
		want string
	}{
		"names in a namespace":      {of(secrets, in("vault"), named("db", "ca")), `secrets.v1 "vault" [ca db]; `},
		"names anywhere":            {of(secrets, named("db")), `secrets.v1 "" []; `},
		"all of a namespace":        {of(secrets, in("vault")), `secrets.v1 "vault" []; `},
		"all":                       {of(secrets), `secrets.v1 "" []; `},
		"in namespaces by labels":   {of(configMaps, near("team=a")), `namespaces.v1 "" []; configmaps.v1 "" []; `},
		"cluster-scoped names":      {of(namespaces, named("a")), `namespaces.v1 "" [a]; `},
		"by labels, in a namespace": {of(configMaps, in("a"), labelled("app=x")), `configmaps.v1 "a" []; `},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, v2Cluster)
			describe := func(reads []Read) (text string) {
				for _, r := range reads {
					text += fmt.Sprintf("%s %q %v; ", r.Resource, r.Namespace, r.Names)
				}
				return text
			}
			reads, err := d.ReadsOf(t.Context(), keyFrom("p"), []hook.RelatedRule{c.rule})
			if got := describe(reads); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if open := d.Watches(); len(open) > 0 {
				t.Errorf("opened %v", open)
			}
			d.set("p", c.rule)
			if got := describe(d.Reads(keyFrom("p"))); got != c.want {
				t.Errorf("once set: got %s, want %s", got, c.want)
			}
		})
	}
}

func TestNamesAreInTheOrderOfTheWire(t *testing.T) {
	parts := []string{"a", "a-", "a-b", "a0", "a.b", "ab", "b", "team", "team-1"}
	for _, spaceA := range parts {
		for _, spaceB := range parts {
			for _, nameA := range parts {
				for _, nameB := range parts {
					want := cmp.Compare(spaceA+"/"+nameA, spaceB+"/"+nameB)
					if got := compareNames(spaceA, nameA, spaceB, nameB); got != want {
						t.Errorf("%s/%s and %s/%s: %d, want %d", spaceA, nameA, spaceB, nameB, got, want)
					}
				}
			}
		}
	}
}

// TestSelect selects among given objects, in any order, without a watch.
func TestSelect(t *testing.T) {
	var all []*object.Object
	for _, o := range []testObject{
		configMap("a/one", "", "app=web"), configMap("b/one", "", "app=web"), configMap("b/two", ""),
		namespace("a"), namespace("b", "tier=front"), widget("a/one", "", "app=web"),
	} {
		all = append(all, must.Get(object.Parse([]byte(o.json(1, false)))).In(t))
	}
	for name, c := range map[string]struct {
		rule hook.RelatedRule
		want string
	}{
		"by name, in any namespace": {of(configMaps, named("one")), "a/one b/one"},
		"in one namespace":          {of(configMaps, in("b")), "b/one b/two"},
		"by labels":                 {of(configMaps, labelled("app=web")), "a/one b/one"},
		"by labels of namespaces":   {of(configMaps, near("tier=front")), "b/one b/two"},
		"in no namespace":           {of(configMaps, near("tier=back")), ""},
	} {
		registry := New(Options{Resolve: resolve, Scope: v2Namespaced})
		selected := must.Get(registry.Select(t.Context(), keyFrom("a/parent"), []hook.RelatedRule{c.rule}, all)).In(t)
		var got []string
		for _, o := range selected {
			got = append(got, o.Namespace()+"/"+o.Name())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}
