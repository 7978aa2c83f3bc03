package handle

import (
	"reflect"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// conflictingFields are the fields that an answer sets although they are not as they were seen.
// With landed, fields that are as the answer has them already are none: a part of it may
// have been written.
func conflictingFields(a *hook.HandlerResponse, seen, now *object.Object, partlyWritten bool) []string {
	patch := responsePatch(a, true)
	if patch == nil || seen == now || now.Digest() == seen.Digest() {
		return nil
	}
	c := fieldConflicts{partlyWritten: partlyWritten}
	c.compare("", patch, decodeObject(seen.JSON()), decodeObject(now.JSON()))
	slices.Sort(c.fields)
	return c.fields
}

// fieldConflicts gathers the leaves of a patch of which two trees differ.
type fieldConflicts struct {
	partlyWritten bool
	fields        []string
}

func (c *fieldConflicts) compare(path string, patch, seen, now map[string]any) {
	for name, value := range patch {
		at := strings.TrimPrefix(path+"."+name, ".")
		inner, isObject := value.(map[string]any)
		before, _ := seen[name].(map[string]any)
		after, wasObject := now[name].(map[string]any)
		switch {
		case isObject && (wasObject || now[name] == nil):
			c.compare(at, inner, before, after)
		case reflect.DeepEqual(seen[name], now[name]), c.partlyWritten && reflect.DeepEqual(now[name], value):
		default:
			c.fields = append(c.fields, at)
		}
	}
}
