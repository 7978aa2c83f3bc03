package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"unique"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// Parse parses a JSON object. It keeps no reference to data, and drops
// metadata.managedFields, often a third of an object: see ParseWithManagedFields.
//
// It does not detect duplicate names: see HasUniqueNames. The error of a field is a *FieldError.
func Parse(data []byte) (*Object, error) { return ParseAs(data, "", "") }

// ParseAs is Parse for list items, which lack apiVersion and kind. It adds them if missing.
func ParseAs(data []byte, apiVersion, kind string) (*Object, error) {
	return parse(data, apiVersion, kind, false)
}

// ParseWithManagedFields is ParseAs, and keeps metadata.managedFields.
func ParseWithManagedFields(data []byte, apiVersion, kind string) (*Object, error) {
	return parse(data, apiVersion, kind, true)
}

func parse(data []byte, apiVersion, kind string, whole bool) (*Object, error) {
	data = bytes.TrimSpace(data)
	dec := newDecoder(data)
	defer dec.release()
	p := parser{read: new(Object), data: data, dec: &dec.Decoder, keepManaged: whole}
	err := p.object()
	if err == nil {
		err = expectEnd(p.dec)
	}
	if err == nil {
		return p.build(apiVersion, kind), nil
	}
	if _, has := errors.AsType[*jsontext.SyntacticError](err); !has && !errors.Is(err, errTrailingData) { // It has a position.
		err = &FieldError{Path: fieldPath(p.dec.StackPointer()), Err: err}
	}
	return nil, err
}

// HasUniqueNames reports whether data is valid JSON in which no object has duplicate names.
func HasUniqueNames(data []byte) bool { return jsontext.Value(data).IsValid() }

// FieldError is an error in a field of an object.
type FieldError struct {
	// Path is such as "metadata.labels.app"; "" for the object itself.
	Path string
	Err  error
}

func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	return e.Path + ": " + e.Err.Error()
}

func (e *FieldError) Unwrap() error { return e.Err }

// span is a range of bytes in the data being parsed.
type span struct{ from, to int64 }

// parser reads an object once and stores views of its texts; build copies them.
type parser struct {
	read *Object
	data []byte
	dec  *jsontext.Decoder

	apiVersion, kind []byte
	namespace, name  []byte
	uid              textSpan
	labels           textSpan // rewritten if they cannot be looked up in the data
	owner            owner
	controlled       bool

	// keepManaged keeps managedFields beside the JSON.
	keepManaged bool
	managed     span
	version     span
	annotations span

	// nameFrom is the start of the last member name.
	nameFrom int64
}

type owner struct {
	apiVersion, kind []byte
	name, uid        textSpan
}

// textSpan is a text and its start in the data; -1 if it is not in there, because of escapes.
type textSpan struct {
	text []byte
	from int64
}

func (p *parser) object() error {
	if p.dec.PeekKind() == 'n' {
		return errors.New("must be an object, is null")
	}
	return p.members(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return p.text(&p.apiVersion)
		case "kind":
			return p.text(&p.kind)
		case "metadata":
			return p.members(p.metadata)
		}
		return p.skip()
	})
}

func (p *parser) metadata(name []byte) error {
	switch string(name) {
	case "name":
		return p.text(&p.name)
	case "namespace":
		return p.text(&p.namespace)
	case "uid":
		return p.textSpan(&p.uid)
	case "resourceVersion":
		return p.recordSpan(&p.version, p.readVersion)
	case "generation":
		return p.integer(&p.read.generation)
	case "labels":
		return p.readLabels()
	case "annotations":
		return p.recordSpan(&p.annotations, p.skip)
	case "ownerReferences":
		return readItemsOrNull(p.dec, '[', p.readOwner)
	case "finalizers":
		return readItemsOrNull(p.dec, '[', func() error { return p.text(new([]byte)) })
	case "deletionTimestamp":
		p.read.deleted = p.dec.PeekKind() != 'n'
	case "managedFields":
		from := p.nameFrom
		err := p.skip()
		p.managed = span{from, p.dec.InputOffset()}
		return err
	}
	return p.skip()
}

// recordSpan stores the span of the value that read consumes.
func (p *parser) recordSpan(s *span, read func() error) error {
	s.from = p.dec.InputOffset()
	err := read()
	s.to = p.dec.InputOffset()
	return err
}

func (p *parser) readVersion() error {
	var text []byte
	if err := p.text(&text); err != nil || len(text) == 0 {
		return err
	}
	var err error
	if p.read.version, err = strconv.ParseUint(string(text), 10, 64); err != nil {
		return fmt.Errorf("resource version %q is no integer", text)
	}
	return nil
}

// readLabels stores the span of the labels. Escapes and null values are legal, although API servers send none.
func (p *parser) readLabels() error {
	var at span
	odd := false
	err := p.recordSpan(&at, func() error {
		return p.members(func([]byte) error {
			var value []byte
			odd = odd || p.dec.PeekKind() == 'n'
			return p.text(&value)
		})
	})
	p.labels = textSpan{p.data[at.from:at.to], at.from}
	if odd || bytes.IndexByte(p.labels.text, '\\') >= 0 {
		p.labels = textSpan{plainLabels(bytes.TrimLeft(p.labels.text, ": \t\r\n")), -1}
	}
	return err
}

func (p *parser) readOwner() error {
	var one owner
	controls := false
	err := p.members(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return p.text(&one.apiVersion)
		case "kind":
			return p.text(&one.kind)
		case "name":
			return p.textSpan(&one.name)
		case "uid":
			return p.textSpan(&one.uid)
		case "controller":
			controls = p.dec.PeekKind() == 't'
		}
		return p.skip()
	})
	if controls {
		p.owner, p.controlled = one, true
	}
	return err
}

// members calls each for every member of the next object, which may be null.
func (p *parser) members(each func(name []byte) error) error {
	return readItemsOrNull(p.dec, '{', func() error {
		name, err := p.dec.ReadValue()
		if err != nil {
			return err
		}
		p.nameFrom = p.dec.InputOffset() - int64(len(name))
		return each(Unquoted(name))
	})
}

// skip reads the next value. Unlike SkipValue it does so in one step.
func (p *parser) skip() error {
	_, err := p.dec.ReadValue()
	return err
}

// text reads a string, or null.
func (p *parser) text(into *[]byte) error {
	value, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case '"':
		*into = Unquoted(value)
	case 'n':
	default:
		return fmt.Errorf("must be a string, is %s", kindName(value.Kind()))
	}
	return nil
}

func (p *parser) textSpan(into *textSpan) error {
	if err := p.text(&into.text); err != nil || len(into.text) == 0 {
		return err
	}
	end := p.dec.InputOffset() - 1
	into.from = end - int64(len(into.text))
	if into.from < 0 || !bytes.Equal(p.data[into.from:end], into.text) {
		into.from = -1
	}
	return nil
}

func (p *parser) integer(into *int64) error {
	value, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() == 'n' {
		return nil
	}
	if *into, err = strconv.ParseInt(string(value), 10, 64); err != nil {
		return errors.New("must be an integer")
	}
	return nil
}

// seed makes digests differ between processes; they are never stored.
var seed = maphash.MakeSeed()

// typeName is apiVersion and kind. There are few of them, and each is stored once.
type typeName struct{ apiVersion, kind string }

// build completes the object with its own copy of the bytes, and its digests.
func (p *parser) build(apiVersion, kind string) *Object {
	o := p.read
	o.typeName = unique.Make(typeName{orExpected(p.apiVersion, apiVersion), orExpected(p.kind, kind)}) // It copies new texts.
	var room [256]byte
	o.names, o.nameFrom = string(append(append(room[:0], p.namespace...), p.name...)), uint32(len(p.namespace))
	c := p.copyData(apiVersion, kind)
	if p.controlled {
		o.owner = ownerRanges{
			typeName: unique.Make(typeName{textOf(p.owner.apiVersion), textOf(p.owner.kind)}),
			name:     c.rangeOf(p.owner.name),
			uid:      c.rangeOf(p.owner.uid),
		}
	}
	o.uid, o.labels = c.rangeOf(p.uid), c.rangeOf(p.labels)
	if managed := p.managedFields(); managed != nil {
		c.out, o.managed = binary.BigEndian.AppendUint32(append(c.out, managed...), uint32(len(managed))), true
	}
	o.raw = c.out[:c.size:len(c.out)]
	o.digest = digest(o.raw[:c.shift(p.version.from)], o.raw[c.shift(p.version.to):])
	o.intent = p.intent(o)
	return o
}

// orExpected returns a view of what was read, or the expected text if that is missing.
func orExpected(read []byte, expected string) string {
	if read == nil {
		return expected
	}
	return textOf(read)
}

// textOf returns a view of bytes. It must not outlive them.
func textOf(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) } //nolint:gosec // As the comment says.

// digest hashes what is around the resource version, which changes without any change that a hook sees.
func digest(before, after []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.Write(before)
	h.Write(after)
	return h.Sum64()
}

// intent hashes labels, annotations, generation and deletion.
func (p *parser) intent(o *Object) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(o.textAt(o.labels))
	h.WriteByte(0)
	h.Write(p.data[p.annotations.from:p.annotations.to])
	h.WriteString(strconv.FormatInt(o.generation, 10))
	h.WriteString(strconv.FormatBool(o.deleted))
	return h.Sum64()
}

// DigestOf returns a hash of bytes, stable within this process only.
func DigestOf(data []byte) uint64 { return maphash.Bytes(seed, data) }

// memberExtent returns the span of a member with its comma and white space. No member starts at the beginning of data.
func memberExtent(data []byte, at span) span {
	head, tail := bytes.TrimRight(data[:at.from], " \t\r\n"), bytes.TrimLeft(data[at.to:], " \t\r\n")
	switch {
	case bytes.HasSuffix(head, []byte(",")):
		head = head[:len(head)-1]
	case bytes.HasPrefix(tail, []byte(",")):
		tail = tail[1:]
	}
	return span{int64(len(head)), int64(len(data) - len(tail))}
}

// objectCopy is the object's own copy of the data, in one allocation.
type objectCopy struct {
	out  []byte
	size int // of the JSON; texts without a plain form in it follow
	// moved is how far the texts in front of the cut have moved.
	moved int64
	cut   span
}

// copyData omits managedFields and adds a missing type at the beginning, kind first as in
// single objects, so that objects of lists and watches have equal bytes.
func (p *parser) copyData(apiVersion, kind string) objectCopy {
	head, body := p.typeHeader(apiVersion, kind)
	skipped := int64(len(p.data) - len(body))
	c := objectCopy{moved: int64(len(head)) - skipped, cut: span{skipped, skipped}}
	if p.managed != (span{}) {
		c.cut = memberExtent(p.data, p.managed)
	}
	c.size = len(head) + len(body) - int(c.cut.to-c.cut.from)
	c.out = append(make([]byte, 0, c.size+p.extraSize()), head...)
	c.out = append(c.out, p.data[skipped:c.cut.from]...)
	c.out = append(c.out, p.data[c.cut.to:]...)
	return c
}

// typeHeader returns what replaces the beginning if the type is missing, and the rest.
func (p *parser) typeHeader(apiVersion, kind string) (head, body []byte) {
	if p.kind == nil && kind != "" {
		head = appendTextMember(head, "kind", kind)
	}
	if p.apiVersion == nil && apiVersion != "" {
		head = appendTextMember(head, "apiVersion", apiVersion)
	}
	if head == nil {
		return nil, p.data
	}
	body = bytes.TrimLeft(p.data[1:], " \t\r\n")
	if body[0] == '}' {
		head = head[:len(head)-1]
	}
	return append([]byte{'{'}, head...), body
}

// appendTextMember appends a member and a comma.
func appendTextMember(out []byte, name, text string) []byte {
	out, _ = jsontext.AppendQuote(out, name)
	out = append(out, ':')
	out, _ = jsontext.AppendQuote(out, text)
	return append(out, ',')
}

// extraSize returns the size of what follows the JSON: managedFields with their length, and texts that are not in there.
func (p *parser) extraSize() (size int) {
	if managed := p.managedFields(); managed != nil {
		size = len(managed) + managedTail
	}
	for _, text := range []textSpan{p.labels, p.uid, p.owner.name, p.owner.uid} {
		if text.from < 0 {
			size += len(text.text)
		}
	}
	return size
}

// shift returns the position in the copy of one in the data, and 0 of what is absent there.
func (c *objectCopy) shift(at int64) int64 {
	if at >= c.cut.to {
		at -= c.cut.to - c.cut.from
	}
	return max(at+c.moved, 0)
}

// rangeOf returns the range of a text. It appends one that is not in the data.
func (c *objectCopy) rangeOf(text textSpan) textRange {
	from := int64(len(c.out))
	if text.from < 0 {
		c.out = append(c.out, text.text...)
	} else {
		from = c.shift(text.from)
	}
	return textRange{uint32(from), uint32(from) + uint32(len(text.text))}
}

// managedFields returns the value of metadata.managedFields; nil if it is not kept.
func (p *parser) managedFields() []byte {
	if !p.keepManaged || p.managed == (span{}) {
		return nil
	}
	_, value, _ := bytes.Cut(p.data[p.managed.from:p.managed.to], []byte(":"))
	return bytes.TrimSpace(value)
}

// managedTail is the size of the length after the managedFields.
const managedTail = 4
