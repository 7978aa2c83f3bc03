package project

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// The schema that new operators have for editors knows each field of setpoint.yaml, and no other.
func TestSchemaHasEachField(t *testing.T) {
	type object struct{ Properties map[string]json.RawMessage }
	var file object
	var processes struct{ Items object }
	text := must.Get(os.ReadFile("../../scaffold/templates/common/setpoint.schema.json")).In(t)
	must.Succeed(t, json.Unmarshal(text, &file))
	must.Succeed(t, json.Unmarshal(file.Properties["processes"], &processes))
	for of, described := range map[reflect.Type]object{reflect.TypeFor[Project](): file, reflect.TypeFor[Process](): processes.Items} {
		var fields []string
		for _, field := range reflect.VisibleFields(of) {
			if name := field.Tag.Get("json"); name != "-" {
				fields = append(fields, name)
			}
		}
		slices.Sort(fields)
		if known := lists.Keys(described.Properties); !slices.Equal(known, fields) {
			t.Errorf("%s: the schema has %q, the type %q", of, known, fields)
		}
	}
}
