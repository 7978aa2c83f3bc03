package apply_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Updates in the place of applies leave the same objects and the same owners of each field, whatever the
// desired objects and the writes of others are.
func TestUpdatesEqualApplies(t *testing.T) {
	updates := 0
	seeded(t, func(w generator, seed uint64) {
		cheap := newTestController(t, "setpoint.dev/applied-fields", true)
		plain := newTestController(t, "setpoint.dev/applied-fields", true)
		plain.onlyApply = true
		response := w.response()
		for turn := range 8 {
			others := w.Uint64()
			for _, k := range []*testController{cheap, plain} {
				k.setRules(rules(plan.InPlace, plan.ServerSide))
				k.disturb(generator{rand.New(rand.NewPCG(others, 0))}, response)
				k.reconcile(response)
			}
			if difference := sameOwners(cheap, plain); difference != "" {
				t.Fatalf("seed %d, turn %d: %s\nwish: %s\nwith updates: %s", seed, turn, difference, response, strings.Join(cheap.log, ", "))
			}
			if w.IntN(3) == 0 {
				response = w.response()
			} else {
				response = w.otherValues(response)
			}
		}
		updates += strings.Count(strings.Join(cheap.log, "\n")+"\n", ": PUT\n")
	})
	if updates == 0 {
		t.Error("no update was sent")
	}
}

// disturb makes writes of others: some set what is desired next, or apply it themselves.
func (k *testController) disturb(w generator, response []json.RawMessage) {
	if len(k.objects) == 0 || w.IntN(2) == 0 {
		return
	}
	for key, edit := range w.edits() {
		k.editAs("others", key, edit)
	}
	if w.IntN(2) == 0 {
		k.add(w)
	}
	for _, text := range response {
		var desired map[string]any
		if err := json.Unmarshal(text, &desired); err != nil {
			k.t.Fatal(err)
		}
		key := strings.ToLower(desired["kind"].(string)) + "s/a"
		if desired["kind"] == "NetworkPolicy" {
			key = "networkpolicies/a"
		}
		switch w.IntN(6) {
		case 0:
			k.editAs("others", key, map[string]any{"metadata": map[string]any{"labels": desired["metadata"].(map[string]any)["labels"]}})
		case 1:
			delete(desired, w.text("data", "spec").(string))
			k.applyAs("kubectl", key, desired)
		}
	}
}

// applyAs applies an object as another manager.
func (k *testController) applyAs(manager, key string, desired map[string]any) {
	k.t.Helper()
	body, err := json.Marshal(desired)
	if err != nil {
		k.t.Fatal(err)
	}
	request := k.request(manager, key, body)
	request.Request = &http.Request{Method: http.MethodPatch, Header: http.Header{"Content-Type": {string(types.ApplyPatchType)}},
		URL: &url.URL{RawQuery: "force=true&fieldManager=" + manager}}
	if _, err := k.respond(request); err != nil && !apierrors.IsInvalid(err) {
		k.t.Fatal(err)
	}
}

// otherValues changes some values of a response, but no set of fields.
func (w generator) otherValues(response []json.RawMessage) (changed []json.RawMessage) {
	for _, text := range response {
		var o map[string]any
		if err := json.Unmarshal(text, &o); err != nil {
			panic(err)
		}
		for _, name := range slices.Sorted(maps.Keys(o)) {
			if members, isObject := o[name].(map[string]any); isObject {
				o[name] = w.otherValue(o["kind"] == "Secret" && name == "data", members)
			}
		}
		o["metadata"].(map[string]any)["name"] = "a"
		text, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		changed = append(changed, text)
	}
	return changed
}

func (w generator) otherValue(secret bool, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch name {
			case "cpu", "memory":
				v[name] = w.text("1", "1000m", "2")
			case "name", "mountPath", "protocol":
				// The keys of items stay unique.
			default:
				v[name] = w.otherValue(secret, v[name])
			}
		}
	case []any:
		for i := range v {
			v[i] = w.otherValue(secret, v[i])
		}
	case string:
		switch {
		case w.IntN(3) > 0:
		case secret:
			return w.text("eA==", "eQ==", "eg==")
		default:
			return w.text("x", "y", "z")
		}
	case float64:
		if w.IntN(3) == 0 {
			return v + 1
		}
	case bool:
		return w.IntN(2) == 0
	}
	return value
}

// sameOwners returns the first object of two clusters that differs in content or in the owners of its fields.
func sameOwners(a, b *testController) string {
	for key, left := range a.objects {
		right := b.objects[key]
		if right == nil {
			return key + ": missing"
		}
		if x, y := ownersOf(a, key), ownersOf(b, key); x != y {
			return fmt.Sprintf("%s: owners\n%s\nbut by applies only\n%s", key, x, y)
		}
		if x, y := withoutRecord(left.Object), withoutRecord(right.Object); x != y {
			return fmt.Sprintf("%s:\n%s\nbut by applies only\n%s", key, x, y)
		}
	}
	return ""
}

// ownersOf returns the fields of each manager, by whatever operation it owns them.
func ownersOf(k *testController, key string) string {
	owners := map[string]any{}
	for _, e := range k.objects[key].GetManagedFields() {
		var fields map[string]any
		if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
			k.t.Fatal(err)
		}
		withSelf(fields)
		name := e.Manager + " " + e.APIVersion + " " + e.Subresource
		if all, known := owners[name].(map[string]any); known {
			overlay(all, fields)
			fields = all
		}
		owners[name] = fields
	}
	text, err := json.MarshalIndent(owners, "", " ")
	if err != nil {
		k.t.Fatal(err)
	}
	return string(text)
}

// withSelf writes fields that are owned themselves in one way: they have "." only if others are owned below.
func withSelf(fields map[string]any) {
	for name, below := range fields {
		if members := below.(map[string]any); name != "." {
			withSelf(members)
			if len(members) == 0 {
				members["."] = map[string]any{}
			}
		}
	}
}

// withoutRecord returns an object without what differs by the requests that were sent.
func withoutRecord(fields map[string]any) string {
	o := maps.Clone(fields)
	metadata := maps.Clone(o["metadata"].(map[string]any))
	for _, name := range []string{"uid", "resourceVersion", "generation", "managedFields"} {
		delete(metadata, name)
	}
	annotations := maps.Clone(metadata["annotations"].(map[string]any))
	delete(annotations, plan.AppliedAnnotation)
	metadata["annotations"], o["metadata"] = annotations, metadata
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}
