package compile

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// readList reads a list whose items have a hook each, and how each is called.
func readList[D, T any](list string, declared []D, endpoints []api.EndpointConfig,
	read func(field string, one *D) (T, *hookConfig, error)) ([]T, hookConfigs, error) {
	var all []T
	var configs hookConfigs
	for i := range declared {
		one, config, err := read(index(list, i), &declared[i])
		if err != nil {
			return nil, nil, err
		}
		all, configs = append(all, one), append(configs, config)
	}
	return all, configs, configs.complete(endpoints)
}

// complete adds what hooks take from other parts of the spec: credentials and code.
func (all hookConfigs) complete(endpoints []api.EndpointConfig) error {
	if err := all.applyEndpoints(endpoints); err != nil {
		return err
	}
	return all.resolveCode()
}

// resolveCode gives hooks that refer to another hook its code. Hooks with the same ConfigMap share
// one code.
func (all hookConfigs) resolveCode() error {
	var own []*code
	for _, one := range all.withCode() {
		if one.inline.from == "" {
			i := slices.IndexFunc(own, one.inline.code.same)
			if i < 0 {
				i, own = len(own), append(own, one.inline.code)
			}
			one.inline.code = own[i]
		}
	}
	for _, one := range all.withCode() {
		if one.inline.from == "" {
			continue
		}
		other, err := all.sourceOf(one)
		if err != nil {
			return err
		}
		one.inline.code = other.inline.code
	}
	return nil
}

// same reports whether both are the same files of a ConfigMap.
func (c *code) same(other *code) bool {
	return c.inConfigMap() && other.inConfigMap() && c.configMap == other.configMap && c.entry == other.entry &&
		c.language == other.language
}

// withCode returns those that call inline code.
func (all hookConfigs) withCode() hookConfigs {
	return lists.Filter(all, func(one *hookConfig) bool { return one.inline != nil })
}

// sourceOf returns the hook that an inline hook refers to.
func (all hookConfigs) sourceOf(of *hookConfig) (*hookConfig, error) {
	field, name := of.field+".sourceFrom.hook", of.inline.from
	i := slices.IndexFunc(all, func(h *hookConfig) bool { return h.name == name })
	switch {
	case i < 0:
		names := lists.Map(all, func(one *hookConfig) string { return one.name })
		return nil, invalid("%s: the controller has no hook %s; it has %s", field, name, strings.Join(names, ", "))
	case all[i] == of:
		return nil, invalid("%s: %s is this hook; it needs source or sourceFrom.configMapKeyRef", field, name)
	case all[i].inline == nil:
		return nil, invalid("%s: %s is not inline and has no source", field, name)
	case all[i].inline.from != "":
		return nil, invalid("%s: %s has the source of %s; name a hook with source or configMapKeyRef", field, name, all[i].inline.from)
	}
	return all[i], nil
}

func (c *code) inConfigMap() bool { return c.configMap != object.Ref{} }

// checkSizes returns an error for a file that is too large.
func (c *code) checkSizes(sources map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if len(sources[name]) > api.MaxScriptSource {
			return c.refuse(api.ReasonInvalidSource, name, fmt.Sprintf("is larger than %d KiB", api.MaxScriptSource>>10))
		}
	}
	return nil
}

// refuse returns an error in a file.
func (c *code) refuse(reason, file, message string) error {
	return refuse(reason, "%s: %s", c.place(file), message)
}

// refuseConfigMap returns an error of the ConfigMap as a whole, such as "not found".
func (c *code) refuseConfigMap(reason, what string) error {
	return refuse(reason, "%s %s", c.place(""), what)
}

// place returns where a file is, with the path of the field.
func (c *code) place(file string) string {
	switch {
	case c.inConfigMap() && file == "":
		return fmt.Sprintf("%s: %s", c.field, c.configMap)
	case c.inConfigMap():
		return fmt.Sprintf("%s: %s: %s", c.field, c.configMap, file)
	case file == "" || file == c.entry:
		return c.field + ".source"
	}
	return fmt.Sprintf("%s.modules[%s]", c.field, file)
}

// codes returns the code of inline hooks, each once.
func (all hookConfigs) codes() []*code {
	return lists.Union(nil, lists.Map(all.withCode(), func(one *hookConfig) *code { return one.inline.code }))
}

// configMaps returns the ConfigMaps with code, each once.
func (all hookConfigs) configMaps() []object.Ref {
	inConfigMaps := lists.Filter(all.codes(), (*code).inConfigMap)
	return lists.Union(nil, lists.Map(inConfigMaps, func(c *code) object.Ref { return c.configMap }))
}

// readFrom returns the files of the code in its ConfigMap, which is nil if it does not exist.
func (c *code) readFrom(configMap *object.Object) (map[string]string, error) {
	if configMap == nil {
		return nil, c.refuseConfigMap(api.ReasonSourceNotFound, "not found; create it, or name another one")
	}
	var files struct {
		Data       map[string]string
		BinaryData map[string]any
	}
	if err := json.Unmarshal(configMap.JSON(), &files); err != nil {
		return nil, c.refuseConfigMap(api.ReasonInvalidSource, "cannot be read: "+err.Error())
	}
	if binary := slices.Sorted(maps.Keys(files.BinaryData)); len(binary) > 0 {
		return nil, c.refuse(api.ReasonInvalidSource, binary[0], "is in binaryData, since it is not UTF-8 text; save the file as UTF-8")
	}
	if _, found := files.Data[c.entry]; !found {
		keys := strings.Join(slices.Sorted(maps.Keys(files.Data)), ", ")
		return nil, c.refuseConfigMap(api.ReasonSourceNotFound, fmt.Sprintf("has no key %s; its keys are: %s", c.entry, keys))
	}
	return files.Data, c.checkSizes(files.Data)
}

// bareName is the index of an object by what cannot have a namespace in it: a string without a slash, or metadata.name.
const bareName = `(?:\?\.)?\[(?:"[^"/\n]*"|'[^'/\n]*'|\w+\.metadata\.name|\w+\["metadata"\]\["name"\])\]`

// bareNameNotes names where inline code looks up a namespaced child by its bare name, which finds none: the objects of a
// namespaced kind have keys with their namespaces. Code that computes the name is not looked at.
func (all hookConfigs) bareNameNotes(children plan.Rules) []string {
	var notes []string
	for _, one := range all.withCode() {
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
