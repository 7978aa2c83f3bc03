package rolling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

func revisionsOf(paths ...[]string) Revisions {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true}
	return Revisions{Controller: "shops", Parents: shops, FieldPaths: paths, Namespace: "setpoint"}
}

func revisionOf(t *testing.T, k Revisions, parent string) Revision {
	t.Helper()
	return must.Get(k.current(parse(t, parent))).In(t)
}

func TestRevisionName(t *testing.T) {
	k := revisionsOf()
	this := revisionOf(t, k, shop).Name
	if !strings.HasPrefix(this, "shops.example.org-") {
		t.Errorf("got %s", this)
	}
	same := strings.Replace(shop, `{"image":"b"}`, `{ "image" : "b" }`, 1)
	for what, parent := range map[string]string{
		"the same":           shop,
		"another generation": strings.Replace(shop, `"generation":1`, `"generation":2`, 1),
		"with a status":      strings.Replace(shop, `"spec"`, `"status":{"a":1},"spec"`, 1),
		"otherwise written":  same,
	} {
		if got := revisionOf(t, k, parent).Name; got != this {
			t.Errorf("%s: got %s, want %s", what, got, this)
		}
	}
	for what, parent := range map[string]string{
		"another parent": strings.Replace(shop, "parent-uid", "other-uid", 1),
		"another spec":   strings.Replace(shop, `"b"`, `"c"`, 1),
	} {
		if got := revisionOf(t, k, parent).Name; got == this {
			t.Errorf("%s: got the same name", what)
		}
	}
	k.Controller = "other"
	if got := revisionOf(t, k, shop).Name; got == this {
		t.Error("another controller: got the same name")
	}
}

func TestRevisionNameIsValid(t *testing.T) {
	for _, group := range []string{"", "example.org", strings.Repeat("long.", 43) + "org", strings.Repeat("a", 213) + ".org"} {
		k := revisionsOf()
		k.Parents.Group = group
		name := revisionOf(t, k, shop).Name
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		created := must.Get(k.create(parse(t, shop), Revision{Name: name, Number: 1, patch: []byte(`{}`)})).In(t)
		for label := range created.Labels().All() {
			if problems := validation.IsValidLabelValue(label.Value); len(problems) > 0 {
				t.Errorf("%s: %s: %v", label.Key, label.Value, problems)
			}
		}
	}
}

// The fields that are rolled out are those of the revision, all others are current.
func TestParentAtRevision(t *testing.T) {
	parent := func(spec string) string {
		return `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"books","namespace":"town","uid":"parent-uid"},"spec":` + spec + `}`
	}
	for _, c := range []struct {
		paths           [][]string
		then, now, want string
	}{
		{nil, `{"a":1,"b":{"c":2}}`, `{"a":3}`, `{"a":1,"b":{"c":2}}`},
		{[][]string{{"spec", "a"}}, `{"a":1,"b":1}`, `{"a":2,"b":2}`, `{"a":1,"b":2}`},
		{[][]string{{"spec", "a"}}, `{"b":1}`, `{"a":2,"b":2}`, `{"b":2}`},
		{[][]string{{"spec", "a"}}, `{"a":1}`, `{}`, `{"a":1}`},
		{[][]string{{"spec", "a", "x"}, {"spec", "b"}}, `{"a":{"x":1,"y":1},"b":1}`, `{"a":{"y":2},"b":2}`, `{"a":{"y":2,"x":1},"b":1}`},
		{[][]string{{"spec", "a", "x"}}, `{"a":{"x":1}}`, `{}`, `{"a":{"x":1}}`},
		{[][]string{{"spec"}, {"spec", "a"}}, `{"a":1}`, `{"a":2}`, `{"a":1}`},
		{[][]string{{"spec", "a"}, {"spec"}}, `{"a":1}`, `{"a":2}`, `{"a":1}`},
	} {
		k := revisionsOf(c.paths...)
		before := parse(t, parent(c.then))
		r := must.Get(k.current(before)).In(t)
		r.Stored = must.Get(k.create(before, r)).In(t)
		got := must.Get((&History{revisions: k}).ParentAt(parse(t, parent(c.now)), r)).In(t)
		if fieldPath := object.FirstDifference(decode(t, got.JSON()), decode(t, []byte(parent(c.want)))); fieldPath != "" {
			t.Errorf("%v of %s in %s: %s differs: %s", c.paths, c.then, c.now, fieldPath, got.JSON())
		}
	}
}

func TestParentAtRevisionThatDoesNotFit(t *testing.T) {
	k := revisionsOf([]string{"spec", "a", "x"})
	before := parse(t, strings.Replace(shop, `{"image":"b"}`, `{"a":{"x":1}}`, 1))
	r, err := k.current(before)
	must.Succeed(t, err)
	r.Stored = must.Get(k.create(before, r)).In(t)
	_, err = (&History{revisions: k}).ParentAt(parse(t, strings.Replace(shop, `{"image":"b"}`, `{"a":"text"}`, 1)), r)
	if err == nil || !strings.Contains(err.Error(), "build Shop town/books at revision") {
		t.Errorf("got %v", err)
	}
}

func TestClaimsAreReadAsWritten(t *testing.T) {
	rules := rollingPlanner(t, shop, plan.RollingInPlace, 1).Rules
	kind := webs.GroupKind()
	claims := Claims{
		{Kind: kind, Namespace: "town", Name: "w1"}: true, {Kind: kind, Namespace: "town", Name: "w0"}: true, {Kind: kind, Namespace: "shore", Name: "w0"}: true, {Kind: kind, Namespace: "", Name: "w0"}: true,
	}
	text, err := claims.encode()
	if want := `{"Web.example.org":{"":["w0"],"shore":["w0"],"town":["w0","w1"]}}`; err != nil || text != want {
		t.Errorf("got %s, %v; want %s", text, err, want)
	}
	read, err := readClaims(text, rules)
	if again, _ := read.encode(); err != nil || again != text {
		t.Errorf("got %s, %v", again, err)
	}
	read, err = readClaims(`{"ConfigMap":{"town":["c"]},"Gone.example.org":{"town":["g"]}}`, rules)
	if err != nil || len(read) > 0 {
		t.Errorf("what is not rolled out is claimed: %v, %v", read, err)
	}
}

func TestTooManyClaims(t *testing.T) {
	claims := Claims{}
	for i := range 20000 {
		claims[plan.Key{Kind: webs.GroupKind(), Namespace: "town", Name: fmt.Sprintf("a-rather-long-name-%d", i)}] = true
	}
	if _, err := claims.encode(); err == nil || !strings.Contains(err.Error(), "the 20000 children") {
		t.Errorf("got %v", err)
	}
}

// revisionFixture is the revisions of a parent in a short notation: image, number and claimed
// children, such as "a1:w0,w1"; "?0" is the unknown one.
type revisionFixture struct {
	t *testing.T
	k Revisions
	f *plan.Planner
}

func (a revisionFixture) stored(text string) []*object.Object {
	a.t.Helper()
	var all []*object.Object
	for one := range strings.FieldsSeq(text) {
		head, list, _ := strings.Cut(one, ":")
		if head == "?0" {
			all = append(all, a.claiming(Revision{Name: a.k.name(a.f.Parent, unknown)}, strings.Split(list, ",")))
			continue
		}
		parent := parse(a.t, strings.Replace(shop, `"b"`, fmt.Sprintf("%q", head[:1]), 1))
		r := must.Get(a.k.current(parent)).In(a.t)
		r.Number = int64(head[1] - '0')
		r.Stored = must.Get(a.k.create(parent, r)).In(a.t)
		if list != "" {
			r.Stored = a.claiming(r, strings.Split(list, ","))
		}
		all = append(all, r.Stored)
	}
	return all
}

func (a revisionFixture) claiming(r Revision, names []string) *object.Object {
	a.t.Helper()
	claims := Claims{}
	for _, name := range names {
		claims[plan.Key{Kind: webs.GroupKind(), Namespace: "town", Name: name}] = true
	}
	action := must.Get((&History{revisions: a.k, family: a.f}).updateClaims(r, claims)).In(a.t)
	return action.After
}

// describe is the inverse of stored.
func (a revisionFixture) describe(o *object.Object) string {
	a.t.Helper()
	image := cmp.Or(strings.Trim(string(o.Field("data", "parentPatch", "spec", "image")), `"`), "?")
	claims := must.Get(readClaims(plan.Annotation(o, claimsAnnotation), a.f.Rules)).In(a.t)
	return fmt.Sprintf("%s%s:%s", image, o.Field("revision"), claimedNames(claims))
}

func claimedNames(claims Claims) string {
	names := lists.Map(claims.sorted(), func(child plan.Key) string { return child.Name })
	return strings.Join(names, ",")
}

func (a revisionFixture) history(stored, children string) History {
	a.t.Helper()
	s := newRolloutFixture(a.t, plan.RollingInPlace, 1, children)
	config := parse(a.t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"town","ownerReferences":[{"uid":"parent-uid","controller":true}]}}`)
	return must.Get(a.k.History(a.f, a.stored(stored), append(s.observed(), config))).In(a.t)
}

// The cases have the parent at b, and the writes if no child is moved.
func TestHistory(t *testing.T) {
	for _, c := range []struct {
		name, stored, children string
		// want are the previous revisions, writes the expected writes.
		want, writes string
	}{
		{"a new parent", "", "", "?0:", "create b1:"},
		{"children of old", "", ".a+,.a+", "?0:w0,w1", "create ?0:w0,w1; create b1:"},
		{"children of old, half stored", "?0:w0,w1", ".a+,.a+", "?0:w0,w1", "create b1:"},
		{"children of old, in the middle", "?0:w1 b1:", ".b+,.a+", "?0:w1", ""},
		{"children of old, edited in the middle", "?0:w1 c1:", ".c+,.a+", "c1:w0 ?0:w1", "update c1:w0; create b2:"},
		{"nothing new", "b1:", ".b+,.b+", "", ""},
		{"edited", "a1:", ".a+,.a+", "a1:w0,w1", "update a1:w0,w1; create b2:"},
		{"edited, half stored", "a1:w0,w1", ".a+,.a+", "a1:w0,w1", "create b2:"},
		{"edited, half stored, and one is gone", "a1:w1,w2", ".a+,.a+,._+", "a1:w0,w1,w2", "update a1:w0,w1,w2; create b2:"},
		{"edited, and one is gone", "a1:", ".a+,._+,.a+", "a1:w0,w2", "update a1:w0,w2; create b2:"},
		{"in the middle", "a1:w1 b2:", ".b+,aa+", "a1:w1", ""},
		{"in the middle, a claimed one is gone", "a1:w1 b2:", ".b+,a_+", "a1:w1", ""},
		{"edited in the middle", "a1:w1 c2:", ".c+,aa+", "c2:w0 a1:w1", "update c2:w0; create b3:"},
		{"edited before any was moved", "a1:w0,w1 c2:", "aa+,aa+", "c2: a1:w0,w1", "create b3:; delete c2:"},
		{"set back", "b1:w1 c2:", ".c+,.b+", "c2:w0,w1", "update c2:w0,w1; update b3:"},
		{"set back, half stored", "b1:w1 c2:w0", ".c+,.b+", "c2:w0,w1", "update c2:w0,w1; update b3:"},
		{"set back before the next was stored", "b1:w0,w1", ".b+,.b+", "", "update b1:"},
		{"set back past another", "b1:w2 a2:w1 c3:", ".c+,.a+,.b+", "c3:w0,w2 a2:w1", "update c3:w0,w2; update b4:"},
		{"all have gone over", "a1: b2:", ".b+,.b+", "a1:", "delete a1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := revisionFixture{t, revisionsOf(), rollingPlanner(t, shop, plan.RollingInPlace, 1)}
			h := a.history(c.stored, c.children)
			var previous []string
			var kept []Claims
			for _, r := range h.Previous {
				image := "?"
				if r.Known() {
					image = strings.Trim(string(r.Stored.Field("data", "parentPatch", "spec", "image")), `"`)
				}
				previous = append(previous, fmt.Sprintf("%s%d:%s", image, r.Number, claimedNames(r.Claims)))
				kept = append(kept, r.Claims)
			}
			if got := strings.Join(previous, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := a.writes(h, kept); got != c.writes {
				t.Errorf("got writes %q, want %q", got, c.writes)
			}
		})
	}
}

func (a revisionFixture) writes(h History, kept []Claims) string {
	a.t.Helper()
	p := must.Get(h.Writes(kept)).In(a.t)
	var text []string
	for _, stage := range p.Stages {
		for _, action := range stage {
			after := action.After
			if after == nil {
				after = action.Before
			}
			text = append(text, string(action.Verb)+" "+a.describe(after))
		}
	}
	return strings.Join(text, "; ")
}

// Two controllers may manage one parent. Revisions that are being deleted do not count.
func TestHistoryIsPerController(t *testing.T) {
	a := revisionFixture{t, revisionsOf(), rollingPlanner(t, shop, plan.RollingInPlace, 1)}
	stored := a.stored("a1: a2: b3:")
	for i, edit := range []object.Edit{
		{Value: []byte(`"other"`), Path: []string{"metadata", "annotations", controllerAnnotation}},
		{Value: []byte(`"2026-01-01T00:00:00Z"`), Path: []string{"metadata", "deletionTimestamp"}},
	} {
		stored[i] = must.Get(stored[i].Edited(edit)).In(t)
	}
	h, err := a.k.History(a.f, stored, nil)
	if err != nil || len(h.Previous) > 0 || h.Latest.Number != 3 {
		t.Errorf("got %+v, %v", h, err)
	}
}

// A revision is namespaced, its parent is not.
func TestClusterParentsRevisions(t *testing.T) {
	created, err := revisionsOf().create(parse(t, strings.Replace(shop, `"namespace":"town",`, "", 1)), Revision{Name: "n", patch: []byte(`{}`)})
	if err != nil || created.Namespace() != "setpoint" || !created.ControlledBy(parse(t, shop).UID()) {
		t.Errorf("got %s, %v", created.JSON(), err)
	}
}

func TestCorruptRevision(t *testing.T) {
	a := revisionFixture{t, revisionsOf(), rollingPlanner(t, shop, plan.RollingInPlace, 1)}
	for want, edit := range map[string]object.Edit{
		`metadata.annotations["setpoint.dev/children"]: invalid character`: {Value: []byte(`"w0"`), Path: []string{"metadata", "annotations", claimsAnnotation}},
	} {
		corrupt, err := a.stored("a1:")[0].Edited(edit)
		must.Succeed(t, err)
		if _, err = a.k.History(a.f, []*object.Object{corrupt}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The write that stores the remaining claims releases a child that is moved.
func TestOneRevisionReleasesItsClaims(t *testing.T) {
	a := revisionFixture{t, revisionsOf(), rollingPlanner(t, shop, plan.RollingInPlace, 1)}
	h := a.history("a1:", ".a+,.a+,.a+")
	kept := slices.Clone(h.Previous[0].Claims.sorted())[1:]
	if got, want := a.writes(h, []Claims{{kept[0]: true, kept[1]: true}}), "update a1:w1,w2; create b2:"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
