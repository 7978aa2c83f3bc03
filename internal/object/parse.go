package object

import (
	"bytes"
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
