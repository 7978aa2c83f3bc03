package object_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// settings returns a ConfigMap of 1.5 KB as API servers send it, with or without an owner.
func settings(i int, owned bool) []byte {
	owner := ""
	if owned {
		owner = fmt.Sprintf(`"ownerReferences":[{"apiVersion":"example.org/v1","kind":"Shop","name":"shop-%06d",`+
			`"uid":"7c1f9c6e-0d8b-4d39-9b0e-%012d","controller":true,"blockOwnerDeletion":true}],`, i, i)
	}
	return fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings-%06d","namespace":"town",`+
		`"uid":"0b6d7f5e-52c6-4b4b-8f0e-%012d","resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z",`+
		`"labels":{"app":"shop"},%s"managedFields":[{"manager":"setpoint","operation":"Update","apiVersion":"v1",`+
		`"time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:text":{}}}}]},"data":{"text":%q}}`,
		i, i, 1000+i, owner, strings.Repeat("setpoint ", 133))
}

// TestObjectsAreSmall limits the memory of a cached object in addition to its JSON.
func TestObjectsAreSmall(t *testing.T) {
	const many = 4000
	for _, c := range []struct {
		name  string
		owned bool
		limit int
	}{{"orphan", false, 210}, {"owned", true, 210}} {
		texts := make([][]byte, many)
		for i := range texts {
			texts[i] = settings(i, c.owned)
		}
		kept, json := make([]*object.Object, many), 0
		before := heap()
		for i, text := range texts {
			o := must.Get(object.Parse(text)).In(t)
			kept[i], json = o, json+rounded(len(o.JSON()))
		}
		each := (heap() - before - json) / many
		t.Logf("%s: %d bytes besides %d of JSON", c.name, each, json/many)
		if each > c.limit {
			t.Errorf("%s: %d bytes besides the JSON; the limit is %d", c.name, each, c.limit)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(texts)
	}
}

// rounded returns the size that the allocator uses for a number of bytes.
func rounded(size int) int { return cap(append([]byte(nil), make([]byte, size)...)) }

// heap returns the memory in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func BenchmarkParseConfigMap(b *testing.B) {
	text := settings(1, true)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(object.Parse(text)).In(b)
	}
}
