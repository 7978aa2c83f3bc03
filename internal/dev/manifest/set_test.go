package manifest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// compare is tested from inside: through the door it takes an API server, and
// the scripts that run the whole program have one.
func TestCompare(t *testing.T) {
	before := read(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: gone}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: gone, namespace: gone}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: same}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: changed}, data: {a: "1"}}
`)
	s := &Set{applied: map[object.Ref]Document{}}
	for _, stage := range s.compare(before).stages {
		for _, item := range stage {
			s.applied[RefOf(item.Object)] = item
		}
	}
	after := s.compare(read(t, `
{apiVersion: v1, kind: ConfigMap, metadata: {name: changed}, data: {a: "2"}}
---
{apiVersion: v1, kind: Pod, metadata: {name: new, namespace: new}}
---
{apiVersion: v1, metadata: {name: same}, kind: ConfigMap}
---
{apiVersion: v1, kind: Namespace, metadata: {name: new}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: new}}
`))
	got := map[string][]string{"gone": names(after.deleted)}
	for i, name := range []string{"first", "then"} {
		got[name] = names(after.stages[i])
	}
	want := map[string][]string{
		"first": {"Namespace new", "CustomResourceDefinition new"},
		"then":  {"ConfigMap changed", "Pod new/new"},
		"gone":  {"ConfigMap gone/gone", "Namespace gone"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// fakeTarget records what is applied and deleted.
type fakeTarget struct {
	target
	log []string
}

func (f *fakeTarget) complete([]Document) error                       { return nil }
func (f *fakeTarget) begin(context.Context, string, []Document) error { return nil }
func (f *fakeTarget) end(context.Context) error                       { return nil }

func (f *fakeTarget) apply(_ context.Context, o *unstructured.Unstructured) error {
	f.log = append(f.log, "apply "+o.GetName())
	return nil
}

func (f *fakeTarget) delete(_ context.Context, o *unstructured.Unstructured) (bool, error) {
	f.log = append(f.log, "delete "+o.GetName())
	return true, nil
}

// Nothing is deleted before the files were read twice with the same content.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	const one = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n---\n"
	const two = "{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}\n"
	target := &fakeTarget{}
	s := &Set{target: target, paths: []string{dir}, applied: map[object.Ref]Document{}}
	for _, c := range []struct {
		name, file string // "" for a missing file
		step       func(context.Context) (Changes, error)
		want       string
		missing    int
	}{
		{"first", one + two, s.Sync, "apply one, apply two", 0},
		{"cut between documents", one, s.Sync, "", 1},
		{"saved whole", one + two, s.Prune, "", 0},
		{"renamed away", "", s.Sync, "", 2},
		{"back, without an event", one + two, s.Prune, "", 0},
		{"cut", two, s.Sync, "", 1},
		{"cut otherwise", one, s.Prune, "", 1},
		{"the same", one, s.Prune, "delete two", 0},
		{"the same again", one, s.Prune, "", 0},
		{"created at once", one + two, s.Prune, "apply two", 0},
		{"empty", " ", s.Prune, "", 0},
		{"gone", "", s.Sync, "", 2},
		{"still gone", "", s.Prune, "delete one, delete two", 0},
	} {
		file := filepath.Join(dir, "a.yaml")
		_ = os.Remove(file) // It may be gone.
		if c.file != "" {
			must.Succeed(t, os.WriteFile(file, []byte(c.file), 0o600))
		}
		target.log = nil
		changes, err := c.step(t.Context())
		slices.Sort(target.log)
		if got := strings.Join(target.log, ", "); got != c.want || len(changes.Missing) != c.missing || (err != nil) != (c.file == " ") {
			t.Errorf("%s: %q, %v missing, %v", c.name, got, changes.Missing, err)
		}
	}
}

func read(t *testing.T, text string) []Document {
	t.Helper()
	return must.Get(Parse("a.yaml", []byte(text))).In(t)
}

func names(documents []Document) []string {
	return lists.Map(documents, func(d Document) string { return RefOf(d.Object).String() })
}

func TestOnlyRetryableErrorsAreRetried(t *testing.T) {
	pod, other := schema.GroupVersionKind{Kind: "Pod"}, schema.GroupVersionKind{Kind: "ConfigMap"}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("no service account"))
	for _, c := range []struct {
		err  error
		kind schema.GroupVersionKind
		want bool
	}{
		{nil, other, false},
		{&url.Error{Op: "Patch", Err: errors.New("connection refused")}, other, true},
		{apierrors.NewServiceUnavailable("starting"), other, true},
		{apierrors.NewTooManyRequests("later", 1), other, true},
		{forbidden, pod, true},
		{forbidden, other, false},
		{apierrors.NewBadRequest("unknown field"), other, false},
		{apierrors.NewInternalError(errors.New("field not declared in schema")), other, false},
	} {
		if got := isRetryable(c.err, c.kind); got != c.want {
			t.Errorf("%s: %v: %t", c.kind.Kind, c.err, got)
		}
	}
}
