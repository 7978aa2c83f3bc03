package dryrun

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A manifest replaces what users declare; fields of the system and of other managers stay.
func TestMergeManifest(t *testing.T) {
	parse := func(text string) *object.Object {
		return must.Get(object.Parse([]byte(text))).In(t)
	}
	stored := parse(`{"apiVersion":"a/v1","kind":"Shop","metadata":{"name":"s","uid":"u","resourceVersion":"7","generation":3,
		"finalizers":["f"],"labels":{"a":"1","b":"1"},"annotations":{"last":"x"}},"spec":{"size":1,"gone":true},"status":{"ready":true}}`)
	for file, want := range map[string]string{
		`{"apiVersion":"a/v1","kind":"Shop","metadata":{"name":"s","labels":{"b":"2","c":"2"}},"spec":{"size":9007199254740993},"status":{"ready":false}}`: `{"apiVersion":"a/v1","kind":"Shop","metadata":{"annotations":{"last":"x"},"finalizers":["f"],"generation":3,"labels":{"a":"1","b":"2","c":"2"},"name":"s","resourceVersion":"7","uid":"u"},"spec":{"size":9007199254740993},"status":{"ready":true}}`,
		`{"apiVersion":"a/v1","kind":"Shop","metadata":{"name":"s"}}`:                                                                                      `{"apiVersion":"a/v1","kind":"Shop","metadata":{"annotations":{"last":"x"},"finalizers":["f"],"generation":3,"labels":{"a":"1","b":"1"},"name":"s","resourceVersion":"7","uid":"u"},"status":{"ready":true}}`,
	} {
		got := must.Get(mergeManifest(stored, parse(file))).In(t)
		if string(got.JSON()) != want {
			t.Errorf("%s:\ngot  %s\nwant %s", file, got.JSON(), want)
		}
	}
}
