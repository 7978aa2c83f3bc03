package lasthandled

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var here = Location{Annotation: AnnotationPrefix + "test", StatusKey: "test"}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Record
	}{
		"none":     {`{}`, Record{}},
		"stripped": {`null`, Record{}},
		"all fields": {
			quoted(`{"a":{"digest":"x","failed":true,"dropped":true,"generation":3,"counted":"c","ownedDigest":"o","attempts":2,` +
				`"failingSince":5,"inProgress":"u","inProgressSince":7,"progress":{"n":1},"progressInput":"Update x"},"b":{"done":true}}`), all,
		},
		"without a version": {
			withObject(`{"a":{"seen":"x","failed":true,"dropped":true,"generation":3,"counted":"c","owned":"o","tries":2,`+
				`"since":5,"under":"u","at":7,"progress":{"n":1},"of":"Update x"},"b":{"done":true}}`, `"seen"`), all,
		},
		"not JSON":           {quoted(`{"a":`), Record{}},
		"a list":             {quoted(`[1]`), Record{}},
		"null":               {quoted(`null`), Record{}},
		"wrong types":        {quoted(`{"a":{"digest":7}}`), Record{}},
		"wrong types, old":   {withObject(`{"a":{"seen":7}}`, `"seen"`), Record{}},
		"of a later release": {quoted(`{"a":{"digest":"x","more":{}}}`), Record{"a": {Digest: "x"}}},
		"of another object":  {strings.Replace(quoted(`{"a":{"digest":"x"}}`), Digest("u"), "other", 1), Record{}},
	} {
		got := here.Read(parse(t, `{"kind":"Rate","metadata":{"name":"eur","uid":"u","annotations":`+c.text+`}}`))
		if own, is := got[Object]; is && own.Version != Version {
			t.Errorf("%s: version %d: the record would be written for that alone", name, own.Version)
		}
		delete(got, Object)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: read %v, want %v", name, got, c.want)
		}
	}
}

var all = Record{"b": {Done: true}, "a": {
	Digest: "x", Failed: true, Dropped: true, Edition: Edition{3, "c"}, OwnedDigest: "o", Attempts: 2, Since: 5, InProgress: "u",
	InProgressSince: 7, Progress: `{"n":1}`, ProgressInput: "Update x",
}}

func quoted(text string) string { return withObject(text, `"version":1,"digest"`) }

func withObject(text, digest string) string {
	text = strings.Replace(text, `{"a":`, `{"~":{`+digest+`:"`+Digest("u")+`"},"a":`, 1)
	data, _ := json.Marshal(text)
	return fmt.Sprintf(`{%q:%s}`, here.Annotation, data)
}

func parse(t *testing.T, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

// A handler may return progress without a byte, which is none.
func TestSetProgress(t *testing.T) {
	e := Entry{Progress: `{"n":1}`, ProgressInput: "Update x"}
	e.SetProgress(json.RawMessage{}, hook.ReasonUpdate, "y")
	if e != (Entry{}) {
		t.Errorf("%+v", e)
	}
}

func TestRecordIsSmall(t *testing.T) {
	text := Record{"publish": {Digest: Digest(map[string]any{"a": strings.Repeat("x", 10_000)})}}.String()
	if len(text) > 40 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
