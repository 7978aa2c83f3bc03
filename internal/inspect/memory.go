package inspect

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// memory is what recorded values hold.
type memory struct {
	bytes int
	// secret reports that they may contain a Secret.
	secret bool
}

// sizeOf returns about how much memory a run takes.
func sizeOf(run *Run) int {
	var m memory
	m.add(run)
	return m.bytes
}

// overhead is the memory of an allocation or of the entry of a map, beside its contents.
const overhead = 16

// The types that are not walked field by field.
var (
	rawType      = reflect.TypeFor[json.RawMessage]()
	timeType     = reflect.TypeFor[time.Time]()
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
	case v.Type() == objectType:
		o, _ := reflect.TypeAssert[*object.Object](v)
		m.bytes += overhead + o.Size()
	case v.Type() == outputType:
		o, _ := reflect.TypeAssert[*call.Output](v)
		m.bytes += overhead + o.Size()
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
	if v.Type() == resourceType {
		resource, _ := reflect.TypeAssert[object.Resource](v)
		m.secret = m.secret || resource.GroupKind().IsSecret()
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

// hasReferences reports whether values of a kind may reference memory.
func hasReferences(k reflect.Kind) bool {
	switch k {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map, reflect.Struct:
		return true
	}
	return false
}

func (m *memory) elements(v reflect.Value) {
	m.bytes += v.Len() * int(v.Type().Elem().Size())
	switch {
	case v.Type() == rawType:
		m.secret = m.secret || redact.MayHaveSecret(v.Bytes())
	case hasReferences(v.Type().Elem().Kind()):
		for i := range v.Len() {
			m.walk(v.Index(i))
		}
	}
}
