package plan

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// generator makes random values that are similar, so that merges meet all cases.
type generator struct{ *rand.Rand }

// seeded runs a property many times. A failure names the seed.
func seeded(t *testing.T, times int, property func(t *testing.T, g generator)) {
	t.Helper()
	start := rand.Uint64()
	for i := range uint64(times) {
		seed := start + i
		property(t, generator{rand.New(rand.NewPCG(seed, 0))})
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func (g generator) pick(values ...any) any { return values[g.IntN(len(values))] }

func (g generator) value(depth int) any {
	switch n := g.IntN(10); {
	case depth <= 0 || n < 3:
		return g.pick("", "a", "b", true, false, int64(0), int64(1), 1.0, 1.5)
	case n < 6:
		return g.object(depth)
	case n < 9:
		return g.keyed(depth)
	}
	return g.list(depth)
}

func (g generator) object(depth int) map[string]any {
	members := map[string]any{}
	for range g.IntN(4) {
		members[g.pick("a", "b", "c", "d").(string)] = g.value(depth - 1)
	}
	return members
}

func (g generator) list(depth int) []any {
	list := []any{}
	for range g.IntN(4) {
		list = append(list, g.pick(nil, g.value(depth-1), g.value(depth-1)))
	}
	return list
}

// keyed returns a list of objects with keys, some of them duplicates or of other types.
func (g generator) keyed(depth int) []any {
	list := []any{}
	key := g.pick("name", "containerPort", "port", "path").(string)
	for range g.IntN(4) {
		item := g.object(depth - 1)
		item[key] = g.pick("x", "y", int64(1), 1.0, int64(2))
		if g.IntN(3) == 0 {
			item["protocol"] = g.pick("TCP", "UDP", int64(7))
		}
		if g.IntN(4) == 0 {
			item["name"] = g.pick("x", "y", "z")
		}
		list = append(list, item)
	}
	return list
}

// like returns a value that differs from another in some places.
func (g generator) like(value any) any {
	if g.IntN(8) == 0 {
		return g.value(2)
	}
	switch v := value.(type) {
	case map[string]any:
		changed := map[string]any{}
		for name, value := range v {
			if g.IntN(5) > 0 {
				changed[name] = g.like(value)
			}
		}
		return changed
	case []any:
		changed := []any{}
		for _, item := range v {
			if g.IntN(5) > 0 {
				changed = append(changed, g.like(item))
			}
		}
		if g.IntN(4) == 0 {
			g.Shuffle(len(changed), func(i, j int) { changed[i], changed[j] = changed[j], changed[i] })
		}
		return changed
	}
	return value
}

// objectLike is like, but returns an object.
func (g generator) objectLike(value map[string]any) map[string]any {
	changed, isObject := g.like(value).(map[string]any)
	if !isObject {
		return map[string]any{}
	}
	return changed
}

func TestMergeIsIdempotent(t *testing.T) {
	seeded(t, 2000, func(t *testing.T, g generator) {
		desired := g.object(4)
		observed, applied := g.objectLike(desired), g.objectLike(desired)
		checkIdempotent(t, merger{keys: object.ChildKeys, ignoreEmpty: g.IntN(2) == 0}, observed, applied, desired)
	})
}

func checkIdempotent(t *testing.T, m merger, observed, applied, desired map[string]any) {
	t.Helper()
	before := jsonOf(t, []any{observed, applied, desired})
	merged := m.objects(observed, applied, desired)
	again := m.objects(merged, desired, desired)
	if fieldPath := object.FirstDifference(merged, again); fieldPath != "" {
		t.Errorf("merged again, %s differs\nobserved, applied, desired: %s\nmerged: %s\nagain:  %s",
			fieldPath, before, jsonOf(t, merged), jsonOf(t, again))
	}
	if after := jsonOf(t, []any{observed, applied, desired}); after != before {
		t.Errorf("the inputs were changed\nfrom %s\nto   %s", before, after)
	}
}

// A member that was neither applied nor is desired stays. A desired member is set.
func TestMergeKeepsForeignFields(t *testing.T) {
	seeded(t, 2000, func(t *testing.T, g generator) {
		desired := g.object(4)
		observed, applied := g.objectLike(desired), g.objectLike(desired)
		others := g.value(3)
		observed["theirs"] = others
		merged := merger{keys: object.ChildKeys}.objects(observed, applied, desired)
		checkFollows(t, "", observed, applied, desired, merged)
		if fieldPath := object.FirstDifference(merged["theirs"], others); fieldPath != "" {
			t.Errorf("theirs: %s differs", fieldPath)
		}
	})
}

// checkFollows checks a merge by the rules, member by member.
func checkFollows(t *testing.T, path string, observed, applied, desired, merged map[string]any) {
	t.Helper()
	for name, have := range observed {
		_, wasApplied := applied[name]
		_, isDesired := desired[name]
		got, isThere := merged[name]
		if isThere != (isDesired || !wasApplied) {
			t.Errorf("%s: is there: %v", object.JoinPath(path, name), isThere)
		}
		if !isDesired && !wasApplied && object.FirstDifference(got, have) != "" {
			t.Errorf("%s: changed although another client owns it", object.JoinPath(path, name))
		}
	}
	for name, want := range desired {
		at := object.JoinPath(path, name)
		wantObject, isObject := want.(map[string]any)
		if !isObject {
			checkListed(t, at, want, merged[name])
			continue
		}
		haveObject, _ := observed[name].(map[string]any)
		lastObject, _ := applied[name].(map[string]any)
		gotObject, _ := merged[name].(map[string]any)
		if haveObject != nil {
			checkFollows(t, at, haveObject, lastObject, wantObject, gotObject)
		}
	}
}

// checkListed expects a scalar as desired, and at least as many list items as desired.
func checkListed(t *testing.T, path string, want, got any) {
	t.Helper()
	wanted, isList := want.([]any)
	if !isList && object.FirstDifference(want, got) != "" {
		t.Errorf("%s: desired and not there", path)
	}
	if list, _ := got.([]any); isList && len(list) < len(wanted) {
		t.Errorf("%s: an item was lost", path)
	}
}

// If nothing is missing, a merge changes nothing.
func TestNothingMissingNeedsNoMerge(t *testing.T) {
	seeded(t, 2000, func(t *testing.T, g generator) {
		desired := g.object(4)
		checkMissing(t, merger{keys: object.ChildKeys}.objects(g.objectLike(desired), nil, desired), desired)
		checkMissing(t, g.objectLike(desired), desired)
	})
}

func checkMissing(t *testing.T, observed, desired map[string]any) {
	t.Helper()
	if fieldPath := firstMissing("", desired, desired); fieldPath != "" {
		t.Errorf("%s is not as desired in what is desired: %s", fieldPath, jsonOf(t, desired))
	}
	overlaid := merger{keys: object.ChildKeys}.objects(observed, nil, desired)
	if fieldPath := object.FirstDifference(observed, overlaid); fieldPath != "" && firstMissing("", observed, desired) == "" {
		t.Errorf("nothing is lacking, and yet %s differs\nobserved, desired: %s", fieldPath, jsonOf(t, []any{observed, desired}))
	}
}

// checkChanges expects a change for each difference, and for nothing else. Moved items do not
// count.
func checkChanges(t *testing.T, before, after map[string]any) {
	t.Helper()
	same, found := object.KeyedChanges(before, before), object.KeyedChanges(before, after)
	if len(same) > 0 || len(found) > 0 && object.FirstDifference(before, after) == "" {
		t.Errorf("changes of what is the same: %v %v\nbefore, after: %s", same, found, jsonOf(t, []any{before, after}))
	}
	for _, c := range found {
		if c.From == nil && c.To == nil || string(c.From) == string(c.To) {
			t.Errorf("%v is no change\nbefore, after: %s", c, jsonOf(t, []any{before, after}))
		}
	}
}

// FuzzMerge reads a list of three JSON objects.
func FuzzMerge(f *testing.F) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for range 20 {
		desired := g.object(4)
		f.Add(jsonOf(f, []any{g.objectLike(desired), g.objectLike(desired), desired}))
	}
	f.Add(`[{"a":null,"b":[null]},{"a":{}},{"a":null,"b":[null,{}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var trees []map[string]any
		if utiljson.Unmarshal([]byte(text), &trees) != nil || len(trees) != 3 || slices.ContainsFunc(trees, func(m map[string]any) bool { return m == nil }) {
			return
		}
		for _, tree := range trees {
			withoutNulls(tree)
		}
		observed, applied, desired := trees[0], trees[1], trees[2]
		for _, forgiving := range []bool{false, true} {
			checkIdempotent(t, merger{keys: object.ChildKeys, ignoreEmpty: forgiving}, observed, applied, desired)
		}
		checkIdempotentByFieldSet(t, observed, applied, desired)
		checkMissing(t, observed, desired)
		checkChanges(t, observed, desired)
		must.Get(json.Marshal(trees)).In(t)
	})
}
