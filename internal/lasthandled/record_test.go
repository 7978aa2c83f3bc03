package lasthandled

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var here = Location{Annotation: AnnotationPrefix + "test", StatusKey: "test"}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Record
	}{
		"none":               {`{}`, Record{}},
		"stripped":           {`null`, Record{}},
		"whole":              {quoted(`{"a":{"seen":"x","tries":2,"since":5},"b":{"done":true}}`), Record{"a": {Digest: "x", Attempts: 2, Since: 5}, "b": {Done: true}}},
		"all fields":         {quoted(`{"a":{"seen":"x","failed":true,"dropped":true,"generation":3,"counted":"c","owned":"o","under":"u","at":7,"progress":{"n":1},"of":"Update x"}}`), Record{"a": {Digest: "x", Failed: true, Dropped: true, Edition: Edition{3, "c"}, OwnedDigest: "o", InProgress: "u", InProgressSince: 7, Progress: `{"n":1}`, ProgressInput: "Update x"}}},
		"not JSON":           {quoted(`{"a":`), Record{}},
		"a list":             {quoted(`[1]`), Record{}},
		"null":               {quoted(`null`), Record{}},
		"wrong types":        {quoted(`{"a":{"seen":7}}`), Record{}},
		"of a later release": {quoted(`{"a":{"seen":"x","more":{}}}`), Record{"a": {Digest: "x"}}},
		"of another object":  {`{"setpoint.dev/handled-by-test":"{\"~\":{\"seen\":\"other\"},\"a\":{\"seen\":\"x\"}}"}`, Record{}},
	} {
		got := here.Read(parse(t, `{"kind":"Rate","metadata":{"name":"eur","uid":"u","annotations":`+c.text+`}}`))
		delete(got, Object)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: read %v, want %v", name, got, c.want)
		}
	}
}

func quoted(text string) string {
	text = strings.Replace(text, `{"a":`, `{"~":{"seen":"`+Digest("u")+`"},"a":`, 1)
	data, _ := json.Marshal(text)
	return fmt.Sprintf(`{%q:%s}`, here.Annotation, data)
}

func parse(t *testing.T, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

func TestRecordIsSmall(t *testing.T) {
	text := Record{"publish": {Digest: Digest(map[string]any{"a": strings.Repeat("x", 10_000)})}}.String()
	if len(text) > 40 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
