package expression

import (
	"bytes"
	"encoding/json"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// document is a JSON text that is decoded when an expression reads it, once, and an object or a list only as far
// as it is read.
type document struct {
	data  []byte
	value ref.Val
}

// adapter makes values of documents.
type adapter struct{ types.Adapter }

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch value := value.(type) {
	case *document:
		if value.value == nil {
			value.value = a.decode(bytes.TrimLeft(value.data, " \t\r\n"))
		}
		return value.value
	case []*document:
		return types.NewDynamicList(a, value)
	}
	return a.Adapter.NativeToValue(value)
}

// documents returns the values of variables for one evaluation.
func documents(values map[string]any) map[string]any {
	all := make(map[string]any, len(values))
	for name, value := range values {
		switch value := value.(type) {
		case json.RawMessage:
			all[name] = &document{data: value}
		case []json.RawMessage:
			list := make([]*document, len(value))
			for i, one := range value {
				list[i] = &document{data: one}
			}
			all[name] = list
		default:
			all[name] = value
		}
	}
	return all
}

func (a adapter) decode(data []byte) ref.Val {
	switch {
	case len(data) == 0:
		return types.NullValue
	case data[0] == '{':
		return a.members(data)
	case data[0] == '[':
		return a.elements(data)
	}
	return a.scalar(data)
}

func (a adapter) members(data []byte) ref.Val {
	members := map[string]any{}
	err := object.Members(data, func(quoted, value []byte) error {
		members[string(object.Unquoted(quoted))] = &document{data: value}
		return nil
	})
	if err != nil {
		return types.WrapErr(err)
	}
	return types.NewStringInterfaceMap(a, members)
}

func (a adapter) elements(data []byte) ref.Val {
	elements := []*document{}
	err := object.Elements(data, func(value []byte) error {
		elements = append(elements, &document{data: value})
		return nil
	})
	if err != nil {
		return types.WrapErr(err)
	}
	return types.NewDynamicList(a, elements)
}

// scalar decodes numbers as Kubernetes does: as an int if it is one, else as a double.
func (adapter) scalar(data []byte) ref.Val {
	var whole int64
	if json.Unmarshal(data, &whole) == nil && data[0] != 'n' {
		return types.Int(whole)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return types.WrapErr(err)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}
