package hook

import "encoding/json"

// child reads one desired object, and refuses one that could not be found
// again.
func (r *responseReader) child() error {
	var id identity
	start, err := r.object(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return r.given(&id.apiVersion)
		case "kind":
			return r.given(&id.kind)
		case "metadata":
			id.name = false
			return r.metadata(&id)
		}
		return r.skip()
	})
	if err != nil {
		return err
	}
	if missing := id.missing(); missing != "" {
		return r.fault(missing, "required")
	}
	end := r.dec.InputOffset()
	r.out.Children = append(r.out.Children, json.RawMessage(r.data[start:end:end]))
	return nil
}

func (r *responseReader) metadata(id *identity) error {
	return r.members(func(name []byte) error {
		if string(name) == "name" {
			return r.given(&id.name)
		}
		return r.skip()
	})
}

// identity is what a child must have to be found again: which of it was there.
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
func (r *responseReader) given(noted *bool) error {
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
