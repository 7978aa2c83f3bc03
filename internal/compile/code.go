package compile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// inlineConfig is the function of an inline hook.
type inlineConfig struct {
	code     *code
	function string
	// from is the hook whose code it is; empty for code of its own.
	from string
}

// code is what inline hooks call: files of the spec, or of a ConfigMap.
type code struct {
	// field is the path of the inline hook, or of configMapKeyRef.
	field    string
	language string
	// entry is the file with the functions.
	entry string
	// sources are the files by name, with entry, unless there is a configMap.
	sources   map[string]string
	configMap object.Ref
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

// resolveCode gives hooks that refer to another hook its code. Hooks with the same ConfigMap share
// one code.
func (all hookConfigs) resolveCode() error {
	var own []*code
	for _, one := range all.inline() {
		if one.inline.from == "" {
			i := slices.IndexFunc(own, one.inline.code.same)
			if i < 0 {
				i, own = len(own), append(own, one.inline.code)
			}
			one.inline.code = own[i]
		}
	}
	for _, one := range all.inline() {
		if one.inline.from == "" {
			continue
		}
		other, err := all.source(one)
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

// inline returns those that call inline code.
func (all hookConfigs) inline() hookConfigs {
	return slices.DeleteFunc(slices.Clone(all), func(one *hookConfig) bool { return one.inline == nil })
}

// source returns the hook that an inline hook refers to.
func (all hookConfigs) source(of *hookConfig) (*hookConfig, error) {
	field, name := of.field+".sourceFrom.hook", of.inline.from
	i := slices.IndexFunc(all, func(h *hookConfig) bool { return h.name == name })
	switch {
	case i < 0:
		return nil, invalid("%s: the controller has no hook %s; it has %s", field, name, strings.Join(all.names(), ", "))
	case all[i] == of:
		return nil, invalid("%s: %s is this hook; it needs source or sourceFrom.configMapKeyRef", field, name)
	case all[i].inline == nil:
		return nil, invalid("%s: %s is not inline and has no source", field, name)
	case all[i].inline.from != "":
		return nil, invalid("%s: %s has the source of %s; name a hook with source or configMapKeyRef", field, name, all[i].inline.from)
	}
	return all[i], nil
}

func (all hookConfigs) names() []string {
	return lists.Map(all, func(one *hookConfig) string { return one.name })
}

// codes returns the code of inline hooks, each once.
func (all hookConfigs) codes() []*code {
	var codes []*code
	for _, one := range all.inline() {
		if !slices.Contains(codes, one.inline.code) {
			codes = append(codes, one.inline.code)
		}
	}
	return codes
}

// configMaps returns the ConfigMaps with code.
func (all hookConfigs) configMaps() []object.Ref {
	var some []object.Ref
	for _, c := range all.codes() {
		if c.inConfigMap() && !slices.Contains(some, c.configMap) {
			some = append(some, c.configMap)
		}
	}
	return some
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
