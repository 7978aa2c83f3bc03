package hook_test

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
)

// Each file holds a request and what has to be sent for it.
func TestAppendJSONVectors(t *testing.T) {
	files, err := filepath.Glob("testdata/request/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			v := readVector(t, file)
			checkWire(t, v.Request.AppendJSON(nil, hook.Wire{Version: hook.V1}), v.V1)
			checkWire(t, v.Request.AppendJSON(nil, hook.Wire{Version: hook.V2}), v.V2)
		})
	}
}

type vector struct {
	Request hook.Request
	V1, V2  json.RawMessage
}

// readVector makes every object of a file compact, as the cache holds them.
func readVector(t *testing.T, file string) vector {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v vector
	if err := json.Unmarshal(compact(t, data), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func compact(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func checkWire(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAppendJSONAppends(t *testing.T) {
	req := hook.Request{Parent: json.RawMessage(`{}`)}
	got := string(req.AppendJSON([]byte("before "), hook.Wire{Version: hook.V2}))
	want := `before {"controller":null,"parent":{},"children":{},"related":{},"finalizing":false}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The bytes must be what encoding/json makes of the same maps, whatever order
// the request holds things in.
func TestAppendJSONAgreesWithEncodingJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		req := randomRequest(random)
		for _, version := range []hook.Version{hook.V1, hook.V2} {
			checkWire(t, req.AppendJSON(nil, hook.Wire{Version: version}), slowly(t, req, version))
			shuffle(random, req)
			checkWire(t, req.AppendJSON(nil, hook.Wire{Version: version}), slowly(t, req, version))
		}
	}
}

func TestAppendJSONLeavesTheRequestAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	req := randomRequest(random)
	shuffle(random, req)
	before := clone(req)
	req.AppendJSON(nil, hook.Wire{Version: hook.V2})
	if !reflect.DeepEqual(req, before) {
		t.Error("the request was changed")
	}
}

// slowly is the wire form by way of maps.
func slowly(t *testing.T, req *hook.Request, version hook.Version) []byte {
	t.Helper()
	children := map[string]map[string]json.RawMessage{}
	for _, g := range req.Children {
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
		children[g.Kind+"."+g.APIVersion] = group
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(struct {
		Controller json.RawMessage            `json:"controller"`
		Parent     json.RawMessage            `json:"parent"`
		Children   any                        `json:"children"`
		Related    map[string]json.RawMessage `json:"related"`
		Finalizing bool                       `json:"finalizing"`
	}{req.Controller, req.Parent, children, map[string]json.RawMessage{}, req.Finalizing}); err != nil {
		t.Fatal(err)
	}
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
	seen := map[string]bool{}
	fresh := func(parts ...string) bool {
		key := fmt.Sprint(parts)
		was := seen[key]
		seen[key] = true
		return !was
	}
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
		req.Children = append(req.Children, g)
	}
	return req
}

func shuffle(random *rand.Rand, req *hook.Request) {
	random.Shuffle(len(req.Children), reflect.Swapper(req.Children))
	for _, g := range req.Children {
		random.Shuffle(len(g.Objects), reflect.Swapper(g.Objects))
	}
}

func clone(req *hook.Request) *hook.Request {
	own := *req
	own.Children = nil
	for _, g := range req.Children {
		g.Objects = append([]hook.Entry(nil), g.Objects...)
		own.Children = append(own.Children, g)
	}
	return &own
}

func BenchmarkAppendJSON(b *testing.B) {
	req := benchRequest(10)
	b.ReportAllocs()
	for b.Loop() {
		req.AppendJSON(nil, hook.Wire{Version: hook.V2})
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
