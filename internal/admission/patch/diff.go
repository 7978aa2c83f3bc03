package patch

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// differ writes the operations from one document to another. Each operation applies to
// the result of the previous ones, so list indexes shift.
type differ struct {
	// ops is a JSON list, still open.
	ops []byte
	// path is the JSON pointer to what is being compared, and depth its length.
	path  []byte
	depth int
}

// maxDepth is how deep differences are looked for. It takes longer the deeper it is.
const maxDepth = 64

// compare writes the operations from one value to another.
func (d *differ) compare(from, to []byte) error {
	switch {
	case sameScalar(from, to):
		return nil
	case allOf('{', from, to) && d.depth < maxDepth:
		return d.compareObjects(from, to)
	case allOf('[', from, to) && d.depth < maxDepth:
		return d.compareLists(from, to)
	}
	d.write("replace", to)
	return nil
}

func (d *differ) compareObjects(from, to []byte) error {
	old, err := fieldsOf(from)
	if err != nil {
		return err
	}
	now, err := fieldsOf(to)
	if err != nil {
		return err
	}
	for _, f := range old.list {
		if now.find(f.name) < 0 {
			d.writeAt(f.name, "remove", nil)
		}
	}
	for _, f := range now.list {
		was := old.of(f.name)
		if was == nil {
			d.writeAt(f.name, "add", f.value)
			continue
		}
		if err := d.at(f.name, func() error { return d.compare(was, f.value) }); err != nil {
			return err
		}
	}
	return nil
}

// compareLists compares elements, unless replacing the list is shorter.
func (d *differ) compareLists(from, to []byte) error {
	old, err := elementsOf(from)
	if err != nil {
		return err
	}
	now, err := elementsOf(to)
	if err != nil {
		return err
	}
	start := len(d.ops)
	if err := d.compareElements(old, now); err != nil {
		return err
	}
	d.shorten(start, to)
	return nil
}

// shorten replaces all operations after start by one, if that is shorter.
func (d *differ) shorten(start int, to []byte) {
	end := len(d.ops)
	if end == start {
		return
	}
	d.write("replace", to)
	whole := d.ops[end:]
	if len(whole) >= end-start {
		d.ops = d.ops[:end]
		return
	}
	if start == len("[") {
		whole = bytes.TrimPrefix(whole, []byte(","))
	}
	d.ops = append(d.ops[:start], whole...)
}

// compareElements skips the common start and end of two lists, and compares the elements
// between by index.
func (d *differ) compareElements(old, now [][]byte) error {
	head, tail := 0, 0
	for head < min(len(old), len(now)) && similar(old[head], now[head]) {
		head++
	}
	for tail < min(len(old), len(now))-head && similar(old[len(old)-1-tail], now[len(now)-1-tail]) {
		tail++
	}
	both := min(len(old), len(now)) - tail
	for i := range both {
		if err := d.compareElement(i, old[i], now[i]); err != nil {
			return err
		}
	}
	for i := len(old) - tail - 1; i >= both; i-- {
		d.writeAt(indexToken(i), "remove", nil)
	}
	for i := both; i < len(now)-tail; i++ {
		d.writeAt(indexToken(i), "add", now[i])
	}
	for i := len(now) - tail; i < len(now); i++ {
		if err := d.compareElement(i, old[len(old)-len(now)+i], now[i]); err != nil {
			return err
		}
	}
	return nil
}

// compareElement replaces elements that are not similar.
func (d *differ) compareElement(i int, from, to []byte) error {
	if differentIdentity(from, to) {
		d.writeAt(indexToken(i), "replace", to)
		return nil
	}
	return d.at(indexToken(i), func() error { return d.compare(from, to) })
}

func indexToken(i int) []byte { return strconv.AppendInt(nil, int64(i), 10) }

// similar reports whether two elements are versions of the same element.
func similar(a, b []byte) bool {
	if sameScalar(a, b) {
		return true
	}
	name := identity(a)
	return name != "" && name == identity(b)
}

func (d *differ) at(name []byte, do func() error) error {
	outer := len(d.path)
	d.path = append(d.path, '/')
	for _, c := range name {
		switch c {
		case '~':
			d.path = append(d.path, "~0"...)
		case '/':
			d.path = append(d.path, "~1"...)
		default:
			d.path = append(d.path, c)
		}
	}
	d.depth++
	err := do()
	d.depth--
	d.path = d.path[:outer]
	return err
}

func (d *differ) writeAt(name []byte, op string, value []byte) {
	// Writing cannot fail.
	_ = d.at(name, func() error { d.write(op, value); return nil })
}

// write appends an operation; value is nil if it has none.
func (d *differ) write(op string, value []byte) {
	if len(d.ops) > 1 {
		d.ops = append(d.ops, ',')
	}
	path, _ := json.Marshal(string(d.path)) //nolint:errchkjson // A string always can be.
	d.ops = append(append(append(d.ops, `{"op":"`...), op...), `","path":`...)
	d.ops = append(d.ops, path...)
	if value != nil {
		d.ops = append(append(d.ops, `,"value":`...), value...)
	}
	d.ops = append(d.ops, '}')
}
