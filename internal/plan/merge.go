package plan

// merger is the three-way merge of what is observed, what was applied last and
// what is desired now. It follows the rules of Metacontroller's apply:
//
//   - a field desired is set; one applied last and desired no more is removed;
//     any other field is somebody else's and stays;
//   - objects are merged member by member;
//   - lists whose items are objects that one of keys tells apart are merged item
//     by item, in the observed order, new ones at the end;
//   - any other list is replaced whole.
//
// It goes beyond them where they would never come to rest: two items that share
// a key are told apart by more than the key, and a list without keys is merged
// place by place as long as the wish for it stays the same, so that what the
// server filled in is not taken for a difference.
//
// The inputs are JSON trees without nulls in objects, and are not changed; the
// result may share parts of them.
type merger struct {
	// keys are what may tell the items of a list apart, the most telling first.
	keys []itemKey
	// ignoreEmpty takes a value that says nothing (false, 0, "", [], {}), was
	// applied before and is not there, for one that the server dropped, and
	// leaves it out.
	ignoreEmpty bool
	// valuesOmitted says that what was applied is known by its outline only.
	valuesOmitted bool
}

func (m merger) merge(observed, applied, desired any) any {
	switch want := desired.(type) {
	case map[string]any:
		have, ok := observed.(map[string]any)
		if !ok {
			return want
		}
		last, _ := applied.(map[string]any)
		return m.objects(have, last, want)
	case []any:
		have, ok := observed.([]any)
		if !ok {
			return want
		}
		last, _ := applied.([]any)
		return m.lists(have, last, want)
	}
	return desired
}

func (m merger) objects(observed, applied, desired map[string]any) map[string]any {
	merged := make(map[string]any, len(observed)+len(desired))
	for name, value := range observed {
		_, wasApplied := applied[name]
		_, isDesired := desired[name]
		if isDesired || !wasApplied {
			merged[name] = value
		}
	}
	for name, value := range desired {
		have, exists := observed[name]
		last, wasApplied := applied[name]
		switch {
		case exists:
			merged[name] = m.merge(have, last, value)
		case m.ignoreEmpty && wasApplied && isEmptyValue(value) && isEmptyValue(last):
		default:
			merged[name] = value
		}
	}
	return merged
}

// isEmptyValue is true of what a server may leave out when it stores an object.
func isEmptyValue(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case bool:
		return !v
	}
	n, isNumber := number(value)
	return isNumber && n == 0
}

func (m merger) lists(observed, applied, desired []any) []any {
	hasKeys := false
	for _, key := range m.keys {
		want, fits := key.index(desired)
		if !fits {
			continue
		}
		hasKeys = true
		have, fits := key.index(observed)
		last, fitsToo := key.index(applied)
		if fits && fitsToo {
			return m.byKey(have, last, want)
		}
	}
	if !hasKeys && len(observed) == len(desired) && m.unchanged(applied, desired) {
		return m.byPosition(observed, applied, desired)
	}
	return desired
}

// unchanged says whether the wish for a list is still the same. By its outline
// that is less certain: it may want other values in the same places, which
// merging place by place sets as well.
func (m merger) unchanged(applied, desired []any) bool {
	if m.valuesOmitted {
		desired = listFieldSet(desired)
	}
	return difference(applied, desired) == ""
}

// byKey merges lists whose items are told apart by identities.
func (m merger) byKey(observed, applied, desired items) []any {
	merged := make([]any, 0, max(len(observed.order), len(desired.order)))
	for _, id := range observed.order {
		item := observed.byID[id]
		want, isDesired := desired.byID[id]
		last, wasApplied := applied.byID[id]
		switch {
		case isDesired:
			merged = append(merged, m.merge(item, last, want))
		case !wasApplied:
			merged = append(merged, item)
		}
	}
	for _, id := range desired.order {
		if _, known := observed.byID[id]; !known {
			merged = append(merged, desired.byID[id])
		}
	}
	return merged
}

// byPosition merges the items of lists of one length, each with that in its place.
func (m merger) byPosition(observed, applied, desired []any) []any {
	merged := make([]any, len(desired))
	for i := range desired {
		merged[i] = m.merge(observed[i], applied[i], desired[i])
	}
	return merged
}

// withoutNulls drops members that are null from objects, at any depth. The
// items of lists stay, since their places mean something.
func withoutNulls(tree any) {
	switch t := tree.(type) {
	case map[string]any:
		for name, value := range t {
			if value == nil {
				delete(t, name)
				continue
			}
			withoutNulls(value)
		}
	case []any:
		for _, item := range t {
			withoutNulls(item)
		}
	}
}
