package patch

// appendMerged appends raw with a JSON merge patch applied (RFC 7386). Raw may be nil.
func appendMerged(dst, raw, patch []byte) ([]byte, error) {
	if kindOf(patch) != '{' {
		return append(dst, patch...), nil
	}
	changes, err := fieldsOf(patch)
	if err != nil {
		return nil, err
	}
	var old fields
	if kindOf(raw) == '{' {
		if old, err = fieldsOf(raw); err != nil {
			return nil, err
		}
	}
	dst = append(dst, '{')
	for _, f := range old.list {
		if dst, err = appendChanged(dst, f, changes.of(f.name)); err != nil {
			return nil, err
		}
	}
	for _, f := range changes.list {
		if old.find(f.name) >= 0 {
			continue
		}
		if dst, err = appendChanged(dst, field{quoted: f.quoted}, f.value); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendChanged appends a patched field.
func appendChanged(dst []byte, f field, change []byte) ([]byte, error) {
	switch kindOf(change) {
	case 0:
		return append(appendName(dst, f.quoted), f.value...), nil
	case 'n':
		return dst, nil
	}
	return appendMerged(appendName(dst, f.quoted), f.value, change)
}
