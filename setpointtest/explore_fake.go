package setpointtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// fake is a pointer to a value that JSON holds whole. It implements loop.System.
type fake struct{ pointer reflect.Value }

func newFake(of any) (*fake, error) {
	v := reflect.ValueOf(of)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, fmt.Errorf("must be a pointer to a value that JSON holds, such as a struct with exported fields, not %T", of)
	}
	f := &fake{v}
	if _, marshals := of.(json.Marshaler); !marshals && v.Elem().Kind() == reflect.Struct && v.Elem().NumField() > 0 &&
		len(f.fields()) == 0 {
		return nil, fmt.Errorf("%T has no exported fields, so its state would not be explored", of)
	}
	before, err := f.Snapshot()
	if err != nil {
		return nil, err
	}
	if err := f.Restore(before); err != nil {
		return nil, err
	}
	if after, err := f.Snapshot(); err != nil || !bytes.Equal(before, after) {
		return nil, errors.Join(err, fmt.Errorf("JSON does not hold the value whole: it is %s, and then %s", before, after))
	}
	return f, nil
}

// Snapshot implements loop.System.
func (f *fake) Snapshot() ([]byte, error) { return json.Marshal(f.pointer.Interface()) }

// Restore implements loop.System. Fields that JSON does not hold stay as they are, such as locks and settings.
func (f *fake) Restore(snapshot []byte) error {
	if f.pointer.Elem().Kind() == reflect.Struct {
		for _, field := range f.fields() {
			field.SetZero()
		}
	} else {
		f.pointer.Elem().SetZero()
	}
	return json.Unmarshal(snapshot, f.pointer.Interface())
}

// fields are those of a struct that JSON holds.
func (f *fake) fields() []reflect.Value {
	var all []reflect.Value
	for field, value := range f.pointer.Elem().Fields() {
		if field.IsExported() && field.Tag.Get("json") != "-" {
			all = append(all, value)
		}
	}
	return all
}
