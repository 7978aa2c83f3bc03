package object

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Parse parses a JSON object. It keeps no reference to data, and drops
// metadata.managedFields, often a third of an object: see ParseWithManagedFields.
//
// It does not detect duplicate names, since the API server sends none: see HasUniqueNames. The
// error of a field is a *FieldError.
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
	p := parser{data: data, dec: &dec.Decoder, keepManaged: whole}
	if err := p.document(); err != nil {
		return nil, withFieldPath(p.dec, err)
	}
	return p.build(apiVersion, kind), nil
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

var errTrailingData = errors.New("more than one JSON value")

// withFieldPath adds the field path to an error without a position.
func withFieldPath(dec *jsontext.Decoder, err error) error {
	if _, itself := errors.AsType[*jsontext.SyntacticError](err); itself || errors.Is(err, errTrailingData) {
		return err
	}
	return &FieldError{Path: FieldPath(string(dec.StackPointer())), Err: err}
}

// span is a range of bytes in the data being parsed.
type span struct{ from, to int64 }

// parser reads an object once and stores views of its metadata; build copies them.
type parser struct {
	data []byte
	dec  *jsontext.Decoder

	apiVersion, kind []byte
	namespace, name  []byte
	uid              textSpan
	resourceVersion  uint64
	generation       int64
	labels           labelSet
	owner            owner
	controlled       bool
	deleting         bool

	// keepManaged keeps managedFields beside the JSON.
	keepManaged bool
	managed     span
	version     span
	annotations span

	// nameFrom is the start of the last member name.
	nameFrom int64
}

// labelSet is the span of the labels. If they cannot be looked up there, rewritten is a JSON
// object of all that can.
type labelSet struct {
	span
	rewritten []byte
}

// owner is an owner reference.
type owner struct {
	apiVersion, kind []byte
	name, uid        textSpan
}

// textSpan is a text and its start in the data; -1 if it was escaped.
type textSpan struct {
	text []byte
	from int64
}

// document reads one object and the end of the data.
func (p *parser) document() error {
	if err := p.object(); err != nil {
		return err
	}
	return expectEnd(p.dec)
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
		return p.integer(&p.generation)
	case "labels":
		return p.readLabels()
	case "annotations":
		return p.recordSpan(&p.annotations, p.skip)
	case "ownerReferences":
		return p.container('[', p.readOwner)
	case "finalizers":
		return p.container('[', p.finalizer)
	case "deletionTimestamp":
		p.deleting = p.dec.PeekKind() != 'n'
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
	version, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("resource version %q is no integer", text)
	}
	p.resourceVersion = version
	return nil
}

// readLabels stores the span of the labels. Escapes and null values are legal, although API
// servers send none.
func (p *parser) readLabels() error {
	odd := false
	err := p.recordSpan(&p.labels.span, func() error {
		return p.members(func([]byte) error {
			var value []byte
			odd = odd || p.dec.PeekKind() == 'n'
			return p.text(&value)
		})
	})
	p.labels.rewritten = nil
	if text := p.data[p.labels.from:p.labels.to]; odd || bytes.IndexByte(text, '\\') >= 0 {
		p.labels.rewritten = plainLabels(bytes.TrimLeft(text, ": \t\r\n"))
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

func (p *parser) finalizer() error {
	var name []byte
	return p.text(&name)
}

// members calls each for every member of the next object, which may be null.
func (p *parser) members(each func(name []byte) error) error {
	return p.container('{', func() error {
		name, err := p.dec.ReadValue()
		if err != nil {
			return err
		}
		p.nameFrom = p.dec.InputOffset() - int64(len(name))
		return each(Unquoted(name))
	})
}

// container calls each for the items of the next object or list, which may be null.
func (p *parser) container(kind jsontext.Kind, each func() error) error {
	if p.dec.PeekKind() == 'n' {
		return p.skip()
	}
	if err := open(p.dec, kind); err != nil {
		return err
	}
	return readItems(p.dec, each)
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

// textSpan reads a string and stores its span.
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
	if value.Kind() == '0' {
		*into, err = strconv.ParseInt(string(value), 10, 64)
	}
	if err != nil || (value.Kind() != '0' && value.Kind() != 'n') {
		return errors.New("must be an integer")
	}
	return nil
}

// kindName names a kind of JSON value in messages.
func kindName(kind jsontext.Kind) string {
	names := map[jsontext.Kind]string{'{': "an object", '[': "a list", '"': "a string", '0': "a number"}
	return cmp.Or(names[kind], kind.String())
}
