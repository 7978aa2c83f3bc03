package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Hidden stands for a value that is not shown.
const Hidden = "*** (hidden)"

// Masked is an object, or a list of objects, in which the values that Secrets hold are
// replaced by Hidden: those of data and stringData, and the copies of the whole that
// those who apply keep in annotations. It says how many; other objects are returned as
// they are, to the byte. What is no JSON is all hidden.
func Masked(object json.RawMessage) (shown json.RawMessage, hidden int) {
	var o any
	if err := json.Unmarshal(object, &o); err != nil {
		return json.RawMessage(`"` + Hidden + `"`), 1
	}
	if hidden = mask(o); hidden == 0 {
		return object, 0
	}
	shown, err := json.Marshal(o)
	if err != nil {
		return json.RawMessage(`"` + Hidden + `"`), 1
	}
	return shown, hidden
}

// Unmasked is an edited object in which each value that is still Hidden is that of the
// live object again, so that nobody stores the mask.
func Unmasked(edited, live json.RawMessage) (json.RawMessage, error) {
	var to, from any
	if err := json.Unmarshal(edited, &to); err != nil {
		return nil, fmt.Errorf("read the edited object: %w", err)
	}
	if err := json.Unmarshal(live, &from); err != nil {
		return nil, fmt.Errorf("read the live object: %w", err)
	}
	if !isSecret(to) {
		return edited, nil
	}
	for _, values := range hiding() {
		wanted, had := values(to), values(from)
		for name, value := range wanted {
			if value != Hidden {
				continue
			}
			if _, there := had[name]; !there {
				return nil, fmt.Errorf("%s is %q, and there is no value to leave as it is", name, Hidden)
			}
			wanted[name] = had[name]
		}
	}
	text, err := json.Marshal(to)
	if err != nil {
		return nil, fmt.Errorf("write the edited object: %w", err)
	}
	return text, nil
}

// hiding are the places of a Secret where values are hidden.
func hiding() []func(secret any) map[string]any {
	return []func(any) map[string]any{
		func(secret any) map[string]any { return member(secret, "data") },
		func(secret any) map[string]any { return member(secret, "stringData") },
		func(secret any) map[string]any { return member(member(secret, "metadata"), "annotations") },
	}
}

func mask(o any) (hidden int) {
	if items, list := member(o)["items"].([]any); list {
		for _, item := range items {
			// Items of a list may leave out of which kind they are.
			if kind, _ := member(o)["kind"].(string); kind == "SecretList" || isSecret(item) {
				hidden += maskSecret(item)
			}
		}
	}
	if isSecret(o) {
		hidden += maskSecret(o)
	}
	return hidden
}

func isSecret(o any) bool {
	kind, _ := member(o)["kind"].(string)
	version, _ := member(o)["apiVersion"].(string)
	return kind == "Secret" && (version == "v1" || version == "")
}

// maskSecret hides values. An annotation is hidden if it could be a copy of others, by
// its name or because it is structured.
func maskSecret(secret any) (hidden int) {
	for _, name := range []string{"data", "stringData"} {
		if _, values := member(secret)[name].(map[string]any); !values && member(secret)[name] != nil {
			member(secret)[name] = Hidden // It could not be stored, but may be shown.
			hidden++
		}
	}
	for i, values := range hiding() {
		annotations := i == len(hiding())-1
		for name, value := range values(secret) {
			if annotations && !mayHold(name, value) {
				continue
			}
			values(secret)[name] = Hidden
			hidden++
		}
	}
	return hidden
}

func mayHold(name string, value any) bool {
	text, _ := value.(string)
	return strings.HasSuffix(name, "last-applied-configuration") || strings.ContainsAny(text, "{\n")
}

// member is an object within an object, by the names on the way; nil if there is none.
func member(o any, path ...string) map[string]any {
	for _, name := range path {
		members, _ := o.(map[string]any)
		o = members[name]
	}
	members, _ := o.(map[string]any)
	return members
}
