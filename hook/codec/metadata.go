package codec

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// object reads an object and requires the fields that identify it.
func (r *reader) object(into *json.RawMessage) error {
	var id identity
	start, err := r.openObject(func(name []byte) error { return r.identityMember(name, &id) })
	if err != nil {
		return err
	}
	*into = r.since(start)
	return r.requireIdentity(id)
}

// identityMember reads a field of an object and records in id whether it identifies the
// object.
func (r *reader) identityMember(name []byte, id *identity) error {
	switch string(name) {
	case "apiVersion":
		return r.nonEmptyString(&id.apiVersion)
	case "kind":
		return r.nonEmptyString(&id.kind)
	case "metadata":
		id.name = false
		return r.members(func(name []byte) error {
			if string(name) == "name" {
				return r.nonEmptyString(&id.name)
			}
			return r.skip()
		})
	}
	return r.skip()
}

// identity records which of the identifying fields an object has.
type identity struct{ apiVersion, kind, name bool }

func (r *reader) requireIdentity(id identity) error {
	return r.require(given{".apiVersion", id.apiVersion}, given{".kind", id.kind}, given{".metadata.name", id.name})
}

// nonEmptyString reads a string, sets isSet, and rejects the empty string.
func (r *reader) nonEmptyString(isSet *bool) error {
	quoted, err := r.value("a string", '"')
	if err != nil {
		return err
	}
	if *isSet = len(quoted) > len(`""`); !*isSet {
		return r.errorAt("", "must not be empty")
	}
	return nil
}

// keyRules validate labels or annotations as the API server does.
type keyRules struct{ key, value func(string) []string }

var (
	labelRules      = keyRules{key: validation.IsQualifiedName, value: validation.IsValidLabelValue}
	annotationRules = keyRules{
		key:   func(key string) []string { return validation.IsQualifiedName(strings.ToLower(key)) },
		value: func(string) []string { return nil },
	}
)

// keys reads labels or annotations to set. A null value removes the key.
func (r *reader) keys(into *map[string]*string, rules keyRules) func() error { //nolint:gocritic // the reader sets it
	return optional(r, into, func() error {
		return r.members(func(name []byte) error {
			key := string(name)
			if wrong := rules.key(key); len(wrong) > 0 {
				return r.errorAt("", "invalid key: %s", wrong[0])
			}
			value, err := r.keyValue(rules)
			if *into == nil {
				*into = map[string]*string{}
			}
			(*into)[key] = value
			return err
		})
	})
}

func (r *reader) keyValue(rules keyRules) (*string, error) {
	if r.null() {
		return nil, r.skip()
	}
	var value string
	if err := r.nonNullText(&value); err != nil {
		return nil, err
	}
	if wrong := rules.value(value); len(wrong) > 0 {
		return nil, r.errorAt("", "invalid value: %s", wrong[0])
	}
	return &value, nil
}
