package object

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Parse reads one complete JSON object. It keeps nothing of data.
// metadata.managedFields is dropped: it is often a third of an object, and few ask
// for it: see ParseWithManagedFields.
//
// Names given twice are not looked for, since the API server sends none: see
// HasUniqueNames. Where a fault lies at a field, the error is a *FieldError.
func Parse(data []byte) (*Object, error) { return ParseAs(data, "", "") }

// ParseAs is Parse for an item of a list, which lacks its apiVersion and kind.
// They are set where they are missing.
func ParseAs(data []byte, apiVersion, kind string) (*Object, error) {
	return parse(data, apiVersion, kind, false)
}

// ParseWithManagedFields is ParseAs, and keeps metadata.managedFields for Whole.
func ParseWithManagedFields(data []byte, apiVersion, kind string) (*Object, error) {
	return parse(data, apiVersion, kind, true)
}

func parse(data []byte, apiVersion, kind string, whole bool) (*Object, error) {
	data = bytes.TrimSpace(data)
	quick := parser{data: data, keepManaged: whole}
	quick.scan.data = data
	quick.dec = &quick.scan
	if quick.document() == nil {
		return quick.build(apiVersion, kind), nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	p := parser{data: data, dec: dec, keepManaged: whole}
	if err := p.document(); err != nil {
		return nil, withFieldPath(dec, err)
	}
	return p.build(apiVersion, kind), nil
}

// HasUniqueNames says that data is legal JSON in which no object gives a name twice.
func HasUniqueNames(data []byte) bool { return jsontext.Value(data).IsValid() }

// FieldError is a fault in an object, and where.
type FieldError struct {
	// Path is such as "metadata.labels.app"; empty for the whole.
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

// withFieldPath says where an error was met that does not say so itself.
func withFieldPath(dec *jsontext.Decoder, err error) error {
	if _, itself := errors.AsType[*jsontext.SyntacticError](err); itself || errors.Is(err, errTrailingData) {
		return err
	}
	return &FieldError{Path: FieldPath(string(dec.StackPointer())), Err: err}
}

// span is a range of bytes in the data being parsed.
type span struct{ from, to int64 }

// parser walks one object once and notes what it passes. What it notes are
// views of data; finish makes them the object's own.
type parser struct {
	data []byte
	dec  reader
	// scan is what dec is at first.
	scan scanner

	apiVersion, kind []byte
	namespace, name  []byte
	uid              textSpan
	resourceVersion  uint64
	generation       int64
	labels           labelSet
	owner            owner
	controlled       bool
	deleting         bool

	// appendManaged says that managedFields are kept, beside the JSON.
	keepManaged bool
	managed     span
	version     span
	annotations span

	// nameFrom is where the name of the member begins that was read last.
	nameFrom int64
}

// labelSet is where the labels stand. If some need more than being looked up
// there, odd is a JSON object made of all.
type labelSet struct {
	span
	rewritten []byte
}

// owner is one owner reference. Each text is where it stands.
type owner struct {
	apiVersion, kind []byte
	name, uid        textSpan
}

// textSpan is a text and where in the data it begins; -1 if it was escaped there.
type textSpan struct {
	text []byte
	from int64
}

// document reads an object and nothing else.
func (p *parser) document() error {
	if err := p.object(); err != nil {
		return err
	}
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailingData
	}
	return nil
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
		return p.dec.SkipValue()
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
		return p.recordSpan(&p.annotations, p.dec.SkipValue)
	case "ownerReferences":
		return p.elements(p.readOwner)
	case "finalizers":
		return p.elements(p.finalizer)
	case "deletionTimestamp":
		p.deleting = p.dec.PeekKind() != 'n'
	case "managedFields":
		from := p.nameFrom
		err := p.dec.SkipValue()
		p.managed = span{from, p.dec.InputOffset()}
		return err
	}
	return p.dec.SkipValue()
}

// recordSpan remembers where in the data the value stands that read consumes.
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

// readLabels notes where they stand. Labels with escapes or without a value are
// legal, though no API server sends any.
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
		return p.dec.SkipValue()
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
