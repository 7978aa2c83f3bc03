package compile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// bareName is the index of an object by what cannot have a namespace in it: a string without a slash, or metadata.name.
const bareName = `(?:\?\.)?\[(?:"[^"/\n]*"|'[^'/\n]*'|\w+\.metadata\.name|\w+\["metadata"\]\["name"\])\]`

// bareNameNotes names where inline code looks up a namespaced child by its bare name, which finds none: the objects of a
// namespaced kind have keys with their namespaces. Code that computes the name is not looked at.
func (all hookConfigs) bareNameNotes(children plan.Rules) []string {
	var notes []string
	for _, one := range all.inline() {
		if one.wire.Version == hook.V1 || one.inline.from != "" {
			continue
		}
		for _, rule := range children {
			if rule.Resource.Namespaced {
				notes = append(notes, one.inline.code.bareNames(rule.Resource.Kind+"."+rule.Resource.APIVersion())...)
			}
		}
	}
	return notes
}

// bareNames returns a note for each file that looks up a child of a group by its bare name.
func (c *code) bareNames(group string) []string {
	lookup := regexp.MustCompile(`(?:children|attachments)(?:\?\.)?\[["']` + regexp.QuoteMeta(group) + `["']\]` + bareName)
	var notes []string
	for _, file := range slices.Sorted(maps.Keys(c.sources)) {
		if at := lookup.FindStringIndex(c.sources[file]); at != nil {
			line := 1 + strings.Count(c.sources[file][:at[0]], "\n")
			notes = append(notes, fmt.Sprintf("%s:%d: the keys of %s are namespace/name, so a bare name finds nothing; use "+
				"child(children, %q, NAME)",
				c.place(file), line, group, group))
		}
	}
	return notes
}
