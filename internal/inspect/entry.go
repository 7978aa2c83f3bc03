package inspect

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// entry is a run in the history. A copy of it may be read without the lock.
type entry struct {
	key objectKey
	// run shares the objects of the loop, and is rendered when it is read, since few are; unless it is rendered: a run
	// that contained Secrets, in which tokens stand for values, or a stripped run.
	run      Run
	rendered bool
	// review marks a review, allowed one that allowed its request.
	review, allowed bool
	// size is the memory used.
	size int
}

// newEntry returns the entry of a run. It keeps no values of Secrets, but tokens of the key.
func newEntry(run *Run, key *redact.Key) *entry {
	e := &entry{
		key: objectKeyOf(run), run: *run,
		review:  len(run.Steps) == 1 && run.Steps[0].Call != nil && run.Steps[0].Call.Sent.Review != nil,
		allowed: run.Outcome == ReviewAllowed || run.Outcome == ReviewMutated,
	}
	e.run.Object.UID, e.run.Secrets = strings.Clone(run.Object.UID), nil
	var m memory
	m.add(&e.run)
	if m.secret || run.Secrets.Found() {
		masked := run.Masked(key)
		masked.Object.UID = e.run.Object.UID // The run's is a part of its object.
		hideOutput(&masked)
		e.replace(masked)
		return e
	}
	e.size = entrySize + m.bytes
	return e
}

const entrySize = int(unsafe.Sizeof(entry{}) - unsafe.Sizeof(Run{}))

// replace keeps a rendered run.
func (e *entry) replace(run Run) {
	var m memory
	m.add(&run)
	e.run, e.rendered, e.size = run, true, entrySize+m.bytes
}

// hideOutput drops what hooks printed, since they may print what they get.
func hideOutput(run *Run) {
	for i := range run.Steps {
		if call := run.Steps[i].Call; call != nil {
			call.Output, call.OutputMore, call.OutputHidden = nil, 0, call.Output != nil
		}
	}
}

// strip drops requests, responses and changes, and everything that references objects.
func (e *entry) strip() {
	run := e.view()
	for i := range run.Steps {
		if call := run.Steps[i].Call; call != nil {
			call.Dropped = true
		}
	}
	e.replace(run)
}

// view returns the run without requests, responses and changes. It belongs to the caller.
func (e *entry) view() Run { return e.withoutTokens(e.run.Render(false)) }

// withoutTokens returns a run of the entry without tokens.
func (e *entry) withoutTokens(run Run) Run {
	if !e.rendered {
		return run
	}
	return hideTokens(run)
}

func hideTokens(run Run) Run {
	hide := func(raw json.RawMessage) json.RawMessage { return redact.HideTokens(raw, redact.Mask) }
	return redact.EachText(run, func(text string) string { return string(hide(json.RawMessage(text))) }, hide)
}

// objectKey identifies an object in any version.
type objectKey struct {
	kind            object.GroupKind
	plural          string
	namespace, name string
}

func objectKeyOf(run *Run) objectKey {
	return objectKey{run.Object.GroupKind(), run.Object.Plural, run.Object.Namespace, run.Object.Name}
}

// matches reports whether a Ref, which may lack the kind or the plural, is that object. Reviews
// of subresources have another kind, such as Scale.
func (n objectKey) matches(ref object.Ref) bool {
	named := ref.Kind.Kind == n.kind.Kind || ref.Plural != "" && ref.Plural == n.plural
	return named && ref.Group == n.kind.Group && ref.Namespace == n.namespace && ref.Name == n.name
}

// memory is what recorded values hold.
type memory struct {
	bytes int
	// secret reports that they may contain a Secret.
	secret bool
}

// overhead is the memory of an allocation or of the entry of a map, beside its contents.
const overhead = 16

// The types that are not walked field by field.
var (
	rawType      = reflect.TypeFor[json.RawMessage]()
	timeType     = reflect.TypeFor[time.Time]()
	kindType     = reflect.TypeFor[object.Kind]()
	resourceType = reflect.TypeFor[object.Resource]()
	objectType   = reflect.TypeFor[*object.Object]()
	outputType   = reflect.TypeFor[*call.Output]()
)

// add adds the value that a pointer references, and everything that the value references.
func (m *memory) add(pointer any) {
	v := reflect.ValueOf(pointer).Elem()
	m.bytes += int(v.Type().Size())
	m.walk(v)
}

// walk adds what a value references.
func (m *memory) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		m.bytes += v.Len()
	case reflect.Pointer:
		m.pointer(v)
	case reflect.Interface:
		m.dynamic(v)
	case reflect.Struct:
		m.fields(v)
	case reflect.Slice:
		m.elements(v)
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			m.bytes += overhead + int(v.Type().Key().Size()+v.Type().Elem().Size())
			m.walk(entries.Key())
			m.walk(entries.Value())
		}
	}
}

func (m *memory) pointer(v reflect.Value) {
	switch {
	case v.IsNil():
	case v.Type() == objectType, v.Type() == outputType:
		sized, _ := reflect.TypeAssert[interface{ Size() int }](v)
		m.bytes += overhead + sized.Size()
	default:
		m.bytes += overhead + int(v.Type().Elem().Size())
		m.walk(v.Elem())
	}
}

// dynamic adds the value of an interface: an error, or decoded JSON.
func (m *memory) dynamic(v reflect.Value) {
	if v.IsNil() {
		return
	}
	if err, is := reflect.TypeAssert[error](v); is {
		m.bytes += overhead + len(err.Error()) // Wrapped errors keep their texts too.
	} else if v.NumMethod() == 0 {
		m.bytes += overhead + int(v.Elem().Type().Size())
		m.walk(v.Elem())
	}
}

func (m *memory) fields(v reflect.Value) {
	switch v.Type() { // All objects share the texts of these.
	case kindType, resourceType:
		of, _ := reflect.TypeAssert[interface{ GroupKind() object.GroupKind }](v)
		m.secret = m.secret || of.GroupKind().IsSecret()
		return
	}
	for i := range v.NumField() {
		switch field := v.Field(i); {
		case field.Type() == timeType, field.Type() == rawType && v.Type().Field(i).Name == "Controller": // All requests share it.
		default:
			m.walk(field)
		}
	}
}

func (m *memory) elements(v reflect.Value) {
	m.bytes += v.Len() * int(v.Type().Elem().Size())
	if v.Type() == rawType {
		m.secret = m.secret || redact.MayHaveSecret(v.Bytes())
		return
	}
	for i := range v.Len() {
		m.walk(v.Index(i))
	}
}
