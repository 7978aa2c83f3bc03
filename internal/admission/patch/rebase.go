package patch

import "bytes"

// appendRebased appends raw with the difference of before and after applied. Raw may be
// nil.
func appendRebased(dst, raw, before, after []byte) ([]byte, error) {
	switch {
	case bytes.Equal(before, after):
		return append(dst, raw...), nil
	case allOf('{', before, after) && (kindOf(raw) == '{' || absent(raw)):
		return rebaseObject(dst, raw, before, after)
	case allOf('[', raw, before, after):
		return rebaseList(dst, raw, before, after)
	}
	return append(dst, after...), nil
}

// absent reports whether a value is missing or null.
func absent(raw []byte) bool { return kindOf(raw) == 0 || kindOf(raw) == 'n' }

// rebase is an object in three versions.
type rebase struct{ raw, before, after fields }

func rebaseObject(dst, raw, before, after []byte) ([]byte, error) {
	var r rebase
	var err error
	if !absent(raw) {
		if r.raw, err = fieldsOf(raw); err != nil {
			return nil, err
		}
	}
	if r.before, err = fieldsOf(before); err != nil {
		return nil, err
	}
	if r.after, err = fieldsOf(after); err != nil {
		return nil, err
	}
	start := len(dst)
	if dst, err = r.appendFields(append(dst, '{')); err != nil {
		return nil, err
	}
	if len(dst) == start+1 && absent(raw) {
		// What was taken out of it was never there.
		return append(dst[:start], raw...), nil
	}
	return append(dst, '}'), nil
}

func (r *rebase) appendFields(dst []byte) ([]byte, error) {
	var err error
	for _, f := range r.raw.list {
		if dst, err = r.appendField(dst, f, f.value); err != nil {
			return nil, err
		}
	}
	for _, f := range r.after.list {
		if r.raw.find(f.name) >= 0 {
			continue
		}
		if dst, err = r.appendField(dst, f, nil); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func (r *rebase) appendField(dst []byte, f field, raw []byte) ([]byte, error) {
	before, after := r.before.of(f.name), r.after.of(f.name)
	if before != nil && after == nil {
		return dst, nil
	}
	start := len(dst)
	dst = appendName(dst, f.quoted)
	value := len(dst)
	dst, err := appendRebased(dst, raw, before, after)
	if err != nil {
		return nil, err
	}
	if len(dst) == value {
		dst = dst[:start]
	}
	return dst, nil
}

// appendName begins a member of the object at the end of dst.
func appendName(dst, quoted []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(dst, quoted...), ':')
}

// rebaseList applies changes to matching elements of raw.
func rebaseList(dst, raw, before, after []byte) ([]byte, error) {
	raws, err := elementsOf(raw)
	if err != nil {
		return nil, err
	}
	befores, err := elementsOf(before)
	if err != nil {
		return nil, err
	}
	afters, err := elementsOf(after)
	if err != nil {
		return nil, err
	}
	if len(raws) != len(befores) {
		return append(dst, after...), nil
	}
	dst = append(dst, '[')
	for to, from := range origins(befores, afters) {
		if to > 0 {
			dst = append(dst, ',')
		}
		if from < 0 {
			dst = append(dst, afters[to]...)
			continue
		}
		if dst, err = appendRebased(dst, raws[from], befores[from], afters[to]); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// origins returns for each element of after its index in before, or -1.
func origins(before, after [][]byte) []int {
	from := make([]int, len(after))
	for i := range from {
		from[i] = -1
	}
	o := origin{before: before, after: after, from: from, taken: make([]bool, len(before))}
	o.matchHead()
	o.match(func(element []byte) string { return string(element) })
	o.match(identity)
	if len(before) == len(after) {
		o.matchIndexes()
	}
	return from
}

type origin struct {
	before, after [][]byte
	from          []int
	taken         []bool
}

// matchHead matches the common start, which is usually all but appended elements.
func (o *origin) matchHead() {
	for i := range min(len(o.before), len(o.after)) {
		if !bytes.Equal(o.before[i], o.after[i]) {
			return
		}
		o.from[i], o.taken[i] = i, true
	}
}

// match matches elements of one identity, in order.
func (o *origin) match(nameOf func([]byte) string) {
	free := map[string][]int{}
	for i, element := range o.before {
		if o.taken[i] {
			continue
		}
		if name := nameOf(element); name != "" {
			free[name] = append(free[name], i)
		}
	}
	for i, element := range o.after {
		if o.from[i] >= 0 || len(free) == 0 {
			continue
		}
		name := nameOf(element)
		if same := free[name]; len(same) > 0 {
			o.from[i], o.taken[same[0]] = same[0], true
			free[name] = same[1:]
		}
	}
}

// matchIndexes matches remaining elements by index, unless their identities differ.
func (o *origin) matchIndexes() {
	for i := range o.after {
		if o.from[i] < 0 && !o.taken[i] && !differentIdentity(o.before[i], o.after[i]) {
			o.from[i], o.taken[i] = i, true
		}
	}
}
