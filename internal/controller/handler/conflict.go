package handler

import (
	"reflect"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// conflictingFields returns the fields that a response sets and that have changed since the
// handler saw them. With partlyWritten, fields that already have the value of the response are
// none: an earlier attempt may have written them.
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

// fieldConflicts collects the leaves of a patch at which two trees differ.
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
