package cache

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// benchConfigMap is a ConfigMap of about 1.5 KB as API servers send it, a third of it
// managedFields.
func benchConfigMap(i int, version uint64) testObject {
	return testObject{
		key: key{"default", fmt.Sprintf("settings-%05d", i)}, version: version, uid: fmt.Sprintf("0b6c9d1e-7c0a-4c39-9a57-%012d", i),
		labels: map[string]string{"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": fmt.Sprint("set-", i%100)},
		owner:  fmt.Sprintf("7f3d2a4b-1111-4222-8333-%012d", i),
		data:   strings.Repeat("0123456789", 110),
	}
}

const managedFieldsJSON = `,"managedFields":[{"manager":"setpoint","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z",` +
	`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:value":{}},"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{},` +
	`"f:app.kubernetes.io/part-of":{}},"f:ownerReferences":{"k:{\"uid\":\"7f3d2a4b-1111-4222-8333-000000000000\"}":{}}}}}]},"data"`

func withManagedFields(o testObject) string {
	return strings.Replace(o.json(), `},"data"`, managedFieldsJSON, 1)
}

// BenchmarkEvent measures a MODIFIED event from the connection into the cache.
func BenchmarkEvent(b *testing.B) {
	const objects = 1000
	var text bytes.Buffer
	for i := range objects {
		fmt.Fprintf(&text, `{"type":"MODIFIED","object":%s}`+"\n", withManagedFields(benchConfigMap(i, uint64(i+1))))
	}
	b.SetBytes(int64(text.Len() / objects))
	b.ReportAllocs()
	c := newWatchCache()
	var in *frameReader
	for i := 0; b.Loop(); i++ {
		if i%objects == 0 {
			in = newFrameReader(bytes.NewReader(text.Bytes()))
			c.latestVersion = 0
		}
		_, data, err := in.next()
		must.Succeed(b, err)
		o := must.Get(object.ParseAs(data, "v1", "ConfigMap")).In(b)
		c.put(c.objects[keyOf(o)], o)
	}
}

// BenchmarkFrames measures splitting the stream.
func BenchmarkFrames(b *testing.B) {
	text := fmt.Appendf(nil, `{"type":"MODIFIED","object":%s}`+"\n", withManagedFields(benchConfigMap(1, 1)))
	many := bytes.Repeat(text, 1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	in := newFrameReader(bytes.NewReader(many))
	for b.Loop() {
		if _, _, err := in.next(); err != nil {
			in = newFrameReader(bytes.NewReader(many))
		}
	}
}

// BenchmarkMemory measures the memory of 10,000 objects with their indexes.
func BenchmarkMemory(b *testing.B) {
	const objects = 10_000
	for b.Loop() {
		before := heap()
		c := newWatchCache()
		for i := range objects {
			o := must.Get(object.ParseAs([]byte(withManagedFields(benchConfigMap(i, uint64(i+1)))), "v1", "ConfigMap")).In(b)
			c.serverUpdated(o)
		}
		b.ReportMetric(float64(heap()-before)/objects, "B/object")
		b.ReportMetric(float64(c.bytes)/objects, "JSON-B/object")
		runtime.KeepAlive(c)
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
