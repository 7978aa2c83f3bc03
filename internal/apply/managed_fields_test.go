package apply

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// The cases have entries as "manager/operation: fields".
func TestTransferFields(t *testing.T) {
	const me = "setpoint-compositecontroller-shops"
	own := &plan.TakeOver{From: []plan.PreviousManager{{Name: me}}}
	applied := map[string]any{
		"labels":          map[string]any{"app": "x"},
		"annotations":     map[string]any{"a/b": "x"},
		"finalizers":      []any{"ours"},
		"ownerReferences": []any{map[string]any{"uid": "u1"}},
	}
	previous := &plan.TakeOver{Applied: applied, From: []plan.PreviousManager{
		{Name: me}, {Name: "setpoint", Shared: true}, {Name: "metacontroller", Shared: true}}}
	for name, c := range map[string]struct {
		take          *plan.TakeOver
		entries, want []string
	}{
		"what was created": {own,
			[]string{me + `/Update: {"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`, `other/Update: {"f:data":{"f:theirs":{}}}`},
			[]string{`other/Update: {"f:data":{"f:theirs":{}}}`, me + `/Apply: {"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`}},
		"what was applied already": {own,
			[]string{me + `/Apply: {"f:data":{"f:k":{}}}`, `other/Update: {"f:data":{"f:theirs":{}}}`}, nil},
		"nothing of it": {previous,
			[]string{`other/Apply: {"f:data":{"f:theirs":{}}}`}, nil},
		"two to one": {previous,
			[]string{
				`setpoint/Update: {"f:spec":{"f:a":{"f:x":{}}}}`,
				me + `/Apply: {"f:spec":{"f:a":{"f:y":{}},"f:b":{}}}`,
				`metacontroller/Apply: {"f:metadata":{"f:labels":{"f:any":{}}}}`,
			},
			[]string{me + `/Apply: {"f:metadata":{"f:labels":{"f:any":{}}},"f:spec":{"f:a":{"f:x":{},"f:y":{}},"f:b":{}}}`}},
		"what others wrote under the same name": {previous,
			[]string{`setpoint/Update: {"f:metadata":{` +
				`"f:annotations":{".":{},"f:a/b":{},"f:theirs":{}},"f:finalizers":{".":{},"v:\"ours\"":{},"v:\"theirs\"":{}},` +
				`"f:labels":{".":{},"f:app":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{},"k:{\"uid\":\"u2\"}":{}}},"f:spec":{"f:a":{}}}`},
			[]string{
				`setpoint/Update: {"f:metadata":{"f:annotations":{".":{},"f:theirs":{}},"f:finalizers":{".":{},"v:\"theirs\"":{}},"f:ownerReferences":{"k:{\"uid\":\"u2\"}":{}}}}`,
				me + `/Apply: {"f:metadata":{"f:annotations":{".":{},"f:a/b":{}},"f:finalizers":{".":{},"v:\"ours\"":{}},` +
					`"f:labels":{".":{},"f:app":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{}}},"f:spec":{"f:a":{}}}`,
			}},
	} {
		t.Run(name, func(t *testing.T) {
			entries := lists.Map(c.entries, func(text string) managedFieldsEntry { return newEntry(t, text) })
			after, changed := transferFields(entries, me, c.take)
			if changed != (c.want != nil) {
				t.Errorf("changed: %v", changed)
			}
			var got []string
			for _, e := range after {
				fields := must.Get(json.Marshal(e.FieldsV1)).In(t)
				got = append(got, e.Manager+"/"+e.Operation+": "+string(fields))
			}
			if text, want := strings.Join(got, "\n"), strings.Join(c.want, "\n"); changed && text != want {
				t.Errorf("got\n%s\nwant\n%s", text, want)
			}
		})
	}
}

func newEntry(t *testing.T, text string) managedFieldsEntry {
	t.Helper()
	who, fields, _ := strings.Cut(text, ": ")
	manager, operation, _ := strings.Cut(who, "/")
	e := managedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1"}
	must.Succeed(t, json.Unmarshal([]byte(fields), &e.FieldsV1))
	return e
}

// Fields of the status subresource stay.
func TestTransferFieldsSkipsTheStatus(t *testing.T) {
	e := newEntry(t, `me/Update: {"f:status":{"f:x":{}}}`)
	e.Subresource = "status"
	after, changed := transferFields([]managedFieldsEntry{e}, "me", &plan.TakeOver{From: []plan.PreviousManager{{Name: "me"}}})
	if changed || len(after) != 1 {
		t.Errorf("got %v", after)
	}
}
