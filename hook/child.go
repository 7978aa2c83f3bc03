package hook

import "encoding/json"

// child reads one desired object.
func (r *responseReader) child() error {
	raw, err := r.identified()
	if err != nil {
		return err
	}
	r.out.Children = append(r.out.Children, raw)
	return nil
}

// identified reads an object, and refuses one that could not be found again.
func (r *reader) identified() (json.RawMessage, error) {
	var id identity
	start, err := r.object(func(name []byte) error { return r.identifying(name, &id) })
	if err != nil {
		return nil, err
	}
	if missing := id.missing(); missing != "" {
		return nil, r.fault(missing, "required")
	}
	end := r.dec.InputOffset()
	return json.RawMessage(r.data[start:end:end]), nil
}

// identifying reads a field of an object, and notes what identifies it.
func (r *reader) identifying(name []byte, id *identity) error {
	switch string(name) {
	case "apiVersion":
		return r.given(&id.apiVersion)
	case "kind":
		return r.given(&id.kind)
	case "metadata":
		id.name = false
		return r.metadata(id)
	}
	return r.skip()
}

func (r *reader) metadata(id *identity) error {
	return r.members(func(name []byte) error {
		if string(name) == "name" {
			return r.given(&id.name)
		}
		return r.skip()
	})
}

// identity is what an object must have to be found again: which of it was there.
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

// given reads a string that must say something, and notes that it does.
func (r *reader) given(noted *bool) error {
	quoted, err := r.text()
	if err != nil {
		return err
	}
	*noted = len(quoted) > len(`""`)
	if !*noted {
		return r.fault("", "must not be empty")
	}
	return nil
}
