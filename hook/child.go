package hook

import "encoding/json"

// object reads an object and requires the fields that identify it.
func (r *reader) object() (json.RawMessage, error) {
	var id identity
	start, err := r.openObject(func(name []byte) error { return r.identityMember(name, &id) })
	if err != nil {
		return nil, err
	}
	if missing := id.missing(); missing != "" {
		return nil, r.errorAt(missing, "required")
	}
	return r.since(start), nil
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

func (id identity) missing() string {
	switch {
	case !id.apiVersion:
		return ".apiVersion"
	case !id.kind:
		return ".kind"
	case !id.name:
		return ".metadata.name"
	}
	return ""
}

// nonEmptyString reads a string, sets isSet, and rejects the empty string.
func (r *reader) nonEmptyString(isSet *bool) error {
	quoted, err := r.quotedString()
	if err != nil {
		return err
	}
	*isSet = len(quoted) > len(`""`)
	if !*isSet {
		return r.errorAt("", "must not be empty")
	}
	return nil
}
