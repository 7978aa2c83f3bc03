package codec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Each file has a request and its expected wire form.
func TestAppendSyncRequestVectors(t *testing.T) {
	eachVector(t, "request", func(t *testing.T, v vector) {
		checkWire(t, codec.AppendSyncRequest(nil, &v.Request, codec.Wire{Version: hook.V1, ControllerType: v.form()}), v.V1)
		checkWire(t, codec.AppendSyncRequest(nil, &v.Request, codec.Wire{Version: hook.V2, ControllerType: v.form()}), v.V2)
	})
}

// eachVector checks each file of a folder, with its objects as the cache stores them.
func eachVector[V any](t *testing.T, folder string, check func(t *testing.T, v V)) {
	t.Helper()
	files, err := filepath.Glob("testdata/" + folder + "/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var text bytes.Buffer
			must.Succeed(t, json.Compact(&text, must.Get(os.ReadFile(file)).In(t)))
			var v V
			must.Succeed(t, json.Unmarshal(text.Bytes(), &v))
			check(t, v)
		})
	}
}

type vector struct {
	// Form defaults to "composite".
	Form    string
	Request hook.Request
	V1, V2  json.RawMessage
}

func (v vector) form() hook.ControllerType {
	if v.Form == "decorator" {
		return hook.Decorator
	}
	return hook.Composite
}

func checkWire(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAppendSyncRequestAppends(t *testing.T) {
	req := hook.Request{Parent: json.RawMessage(`{}`)}
	got := string(codec.AppendSyncRequest([]byte("before "), &req, codec.Wire{Version: hook.V2}))
	want := `before {"controller":null,"parent":{},"children":{},"related":{},"finalizing":false}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The encoder must agree with encoding/json, in whatever order the request lists
// objects.
func TestAppendSyncRequestAgreesWithEncodingJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		req := randomRequest(random)
		for _, w := range []codec.Wire{
			{Version: hook.V1}, {Version: hook.V2},
			{Version: hook.V1, ControllerType: hook.Decorator}, {Version: hook.V2, ControllerType: hook.Decorator},
		} {
			checkWire(t, codec.AppendSyncRequest(nil, req, w), marshalRequest(t, req, w))
			shuffle(random, req)
			checkWire(t, codec.AppendSyncRequest(nil, req, w), marshalRequest(t, req, w))
		}
	}
}

func TestAppendSyncRequestLeavesTheRequestAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	req := randomRequest(random)
	shuffle(random, req)
	before := fmt.Sprintf("%+v", *req)
	codec.AppendSyncRequest(nil, req, codec.Wire{Version: hook.V2})
	if fmt.Sprintf("%+v", *req) != before {
		t.Error("the request was changed")
	}
}

func TestAppendCustomizeRequest(t *testing.T) {
	req := hook.CustomizeRequest{Controller: json.RawMessage(`{"kind":"DecoratorController"}`), Parent: json.RawMessage(`{"kind":"Pod"}`)}
	want := `before {"controller":{"kind":"DecoratorController"},"parent":{"kind":"Pod"}}`
	checkWire(t, codec.AppendCustomizeRequest([]byte("before "), &req), []byte(want))
}

// marshalRequest encodes the wire form with encoding/json.
func marshalRequest(t *testing.T, req *hook.Request, w codec.Wire) []byte {
	t.Helper()
	composite := struct {
		Controller json.RawMessage `json:"controller"`
		Parent     json.RawMessage `json:"parent"`
		Children   any             `json:"children"`
		Related    any             `json:"related"`
		Finalizing bool            `json:"finalizing"`
	}{req.Controller, req.Parent, groupsByKey(req, req.Children, w.Version), groupsByKey(req, req.Related, w.Version), req.Finalizing}
	if w.ControllerType == hook.Composite {
		return marshal(t, composite)
	}
	return marshal(t, struct {
		Controller json.RawMessage `json:"controller"`
		Parent     json.RawMessage `json:"object"`
		Children   any             `json:"attachments"`
		Related    any             `json:"related"`
		Finalizing bool            `json:"finalizing"`
	}(composite))
}

func groupsByKey(req *hook.Request, groups []hook.Group, version hook.Version) map[string]map[string]json.RawMessage {
	all := map[string]map[string]json.RawMessage{}
	for _, g := range groups {
		group := map[string]json.RawMessage{}
		for _, e := range g.Objects {
			switch {
			case e.Namespace == "":
				group[e.Name] = e.Object
			case version == hook.V2 || req.ParentNamespace == "":
				group[e.Namespace+"/"+e.Name] = e.Object
			case e.Namespace == req.ParentNamespace:
				group[e.Name] = e.Object
			}
		}
		all[g.Kind+"."+g.APIVersion] = group
	}
	return all
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	must.Succeed(t, e.Encode(v))
	return bytes.TrimSpace(b.Bytes())
}

func randomRequest(random *rand.Rand) *hook.Request {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	req := &hook.Request{
		Controller:      json.RawMessage(`{"kind":"CompositeController"}`),
		Parent:          json.RawMessage(`{"text":"\u003c<ü\"","n":1e400}`),
		ParentNamespace: pick("", "a", "a-b"),
		Finalizing:      random.IntN(2) == 0,
	}
	req.Children, req.Related = randomGroups(random), randomGroups(random)
	return req
}

func randomGroups(random *rand.Rand) []hook.Group {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	seen := map[string]bool{}
	fresh := func(parts ...string) bool {
		key := fmt.Sprint(parts)
		was := seen[key]
		seen[key] = true
		return !was
	}
	var groups []hook.Group
	for range random.IntN(5) {
		g := hook.Group{Kind: pick("Pod", "Pod2", "PodSet", "ConfigMap"), APIVersion: pick("v1", "apps/v1", "a.b/v1beta1")}
		if !fresh(g.Kind, g.APIVersion) {
			continue
		}
		namespaced := random.IntN(2) == 0
		for i := range random.IntN(6) {
			e := hook.Entry{Name: pick("x", "x-1", "x.1", "system:x", `"quoted"`, "ü"), Object: fmt.Appendf(nil, `{"i":%d}`, i)}
			if namespaced {
				e.Namespace = pick("a", "a-b", "a0", "b")
			}
			if fresh(g.Kind, g.APIVersion, e.Namespace, e.Name) {
				g.Objects = append(g.Objects, e)
			}
		}
		groups = append(groups, g)
	}
	return groups
}

func shuffle(random *rand.Rand, req *hook.Request) {
	for _, groups := range [][]hook.Group{req.Children, req.Related} {
		random.Shuffle(len(groups), reflect.Swapper(groups))
		for _, g := range groups {
			random.Shuffle(len(g.Objects), reflect.Swapper(g.Objects))
		}
	}
}

func BenchmarkAppendSyncRequest(b *testing.B) {
	req := benchRequest(10)
	b.ReportAllocs()
	for b.Loop() {
		codec.AppendSyncRequest(nil, req, codec.Wire{Version: hook.V2})
	}
}

func benchRequest(children int) *hook.Request {
	object := fmt.Appendf(nil, `{"kind":"ConfigMap","data":{"v":"%01000d"}}`, 0)
	req := &hook.Request{Controller: object, Parent: object, ParentNamespace: "default"}
	g := hook.Group{APIVersion: "v1", Kind: "ConfigMap"}
	for i := range children {
		g.Objects = append(g.Objects, hook.Entry{Namespace: "default", Name: fmt.Sprintf("c-%d", i), Object: object})
	}
	req.Children = []hook.Group{g}
	return req
}
