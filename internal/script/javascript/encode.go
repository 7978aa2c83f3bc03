package javascript

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"modernc.org/libc"
	"modernc.org/libquickjs"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// respond is a response in JSON, as JSON.stringify writes it. That one makes null of some values and leaves out others,
// which are errors here, and takes three times as long.
func (m *vm) respond(response value, function string) ([]byte, error) {
	const whatToJSON = "toJSON of the response returned %s, not an object"
	what := "the function " + function + " returned %s, not an object"
	array, err := m.isArray(response)
	switch class := libquickjs.XJS_GetClassID(m.tls, response); {
	case err != nil:
		return nil, err
	case array:
		return nil, refusal(what, "an array")
	case class == libquickjs.EJS_CLASS_GENERATOR, class == libquickjs.EJS_CLASS_ASYNC_GENERATOR:
		return nil, refusal(what, "a generator")
	case response.Ftag == libquickjs.EJS_TAG_UNDEFINED:
		return nil, refusal(what+": does it lack a return?", "undefined")
	case response.Ftag != libquickjs.EJS_TAG_OBJECT, m.isFunction(response):
		return nil, refusal(what, m.shown(response))
	}
	e := &encoder{vm: m}
	if response, err = e.resolve(response); err != nil {
		return nil, err
	}
	if response.Ftag == libquickjs.EJS_TAG_UNDEFINED {
		return nil, refusal(whatToJSON, "undefined")
	}
	if err := e.add(response); err != nil {
		return nil, err
	}
	if e.json[0] != '{' {
		return nil, refusal(whatToJSON, e.json)
	}
	return e.json, nil
}

func refusal(format string, args ...any) error {
	return &script.Error{Message: script.OneLine(fmt.Sprintf(format, args...))}
}

// shown is a value as console.log shows it.
func (m *vm) shown(v value) string {
	text, err := m.call(m.show, v)
	if err != nil {
		return "what cannot be shown"
	}
	shown, _ := m.text(text)
	return string(shown)
}

func (m *vm) isFunction(v value) bool { return libquickjs.XJS_IsFunction(m.tls, m.context, v) != 0 }

// isArray is true also for a proxy of an array.
func (m *vm) isArray(v value) (bool, error) {
	switch libquickjs.XJS_IsArray(m.tls, m.context, v) {
	case 0:
		return false, nil
	case 1:
		return true, nil
	}
	return false, m.exception()
}

// encoder writes a value in JSON.
type encoder struct {
	*vm
	json []byte
	// path leads to the value that is encoded.
	path []step
	// above are the objects and arrays that the value is in.
	above []value
}

// step is a property of an object, or an element of an array if property is 0.
type step struct {
	property libquickjs.TJSAtom
	index    uint32
}

// refuse is an error with the path of the value.
func (e *encoder) refuse(format string, args ...any) error {
	path := []byte("response")
	for _, s := range e.path {
		if s.property == 0 {
			path = fmt.Appendf(path, "[%d]", s.index)
			continue
		}
		name, _ := e.text(libquickjs.XJS_AtomToString(e.tls, e.context, s.property))
		path = append(append(path, '.'), name...)
	}
	return refusal("%s "+format, append([]any{path}, args...)...)
}

// resolve returns what toJSON of a value returns, or the value if it has none.
func (e *encoder) resolve(v value) (value, error) {
	switch v.Ftag {
	case libquickjs.EJS_TAG_OBJECT, libquickjs.EJS_TAG_BIG_INT, libquickjs.EJS_TAG_SHORT_BIG_INT:
	default:
		return v, nil
	}
	toJSON, err := e.get(v, libquickjs.EJS_ATOM_toJSON)
	switch {
	case err != nil:
		return undefined, err
	case toJSON == e.refuseJSON:
		return undefined, e.refuseCollection(v)
	case !e.isFunction(toJSON):
		return v, nil
	}
	key, err := e.key()
	if err != nil {
		return undefined, err
	}
	write(e.shared.argument(), key)
	resolved, err := e.result(libquickjs.XJS_Call(e.tls, e.context, toJSON, v, 1, e.shared.argument()))
	if err == nil && resolved.Ftag == libquickjs.EJS_TAG_NULL && libquickjs.XJS_GetClassID(e.tls, v) == libquickjs.EJS_CLASS_DATE {
		return undefined, e.refuse("is a Date that is not valid")
	}
	return resolved, err
}

// key is what toJSON gets.
func (e *encoder) key() (value, error) {
	property := libquickjs.TJSAtom(libquickjs.EJS_ATOM_empty_string)
	if len(e.path) > 0 {
		last := e.path[len(e.path)-1]
		if property = last.property; property == 0 {
			property = libquickjs.XJS_NewAtomUInt32(e.tls, e.context, last.index)
		}
	}
	return e.result(libquickjs.XJS_AtomToString(e.tls, e.context, property))
}

func (e *encoder) refuseCollection(v value) error {
	if libquickjs.XJS_GetClassID(e.tls, v) == libquickjs.EJS_CLASS_MAP {
		return e.refuse("is a Map: return Object.fromEntries(map)")
	}
	return e.refuse("is a Set: return [...set]")
}

func (e *encoder) get(object value, property libquickjs.TJSAtom) (value, error) {
	return e.result(libquickjs.XJS_GetPropertyInternal(e.tls, e.context, object, property, object, 0))
}

// add adds a value that is resolved.
func (e *encoder) add(v value) error {
	switch v.Ftag {
	case libquickjs.EJS_TAG_OBJECT:
		return e.addObject(v)
	case libquickjs.EJS_TAG_STRING, libquickjs.EJS_TAG_STRING_ROPE:
		return e.addString(v)
	case libquickjs.EJS_TAG_INT:
		e.json = strconv.AppendInt(e.json, int64(payload[int32](v)), 10)
	case libquickjs.EJS_TAG_FLOAT64:
		return e.addNumber(v)
	case libquickjs.EJS_TAG_BOOL:
		e.json = strconv.AppendBool(e.json, payload[int32](v) != 0)
	case libquickjs.EJS_TAG_NULL:
		e.json = append(e.json, "null"...)
	case libquickjs.EJS_TAG_BIG_INT, libquickjs.EJS_TAG_SHORT_BIG_INT:
		return e.addBigInt(v)
	case libquickjs.EJS_TAG_SYMBOL:
		return e.refuse("is a symbol")
	default:
		return e.refuse("is undefined")
	}
	return nil
}

func (e *encoder) addString(v value) error {
	c := libquickjs.XJS_ToCStringLen2(e.tls, e.context, e.shared.length(), v, 0)
	if c == 0 {
		return e.exception()
	}
	defer libquickjs.XJS_FreeCString(e.tls, e.context, c)
	quoted, err := jsontext.AppendQuote(e.json, libc.GoBytes(c, int(read[size](e.shared.length()))))
	if err != nil {
		return e.addHalves(v)
	}
	e.json = quoted
	return e.checkMemory()
}

// addHalves adds a string with half of a surrogate pair, which UTF-8 does not have.
func (e *encoder) addHalves(v value) error {
	quoted, err := e.result(libquickjs.XJS_JSONStringify(e.tls, e.context, v, undefined, undefined))
	if err != nil {
		return err
	}
	return e.addText(quoted)
}

// addNumber adds a number that is no small integer, as JavaScript writes it.
func (e *encoder) addNumber(v value) error {
	text, err := e.text(v)
	if err != nil {
		return err
	}
	switch string(text) {
	case "NaN", "Infinity", "-Infinity":
		return e.refuse("is %s, which JSON does not have", text)
	}
	e.json = append(e.json, text...)
	return nil
}

func (e *encoder) addBigInt(v value) error {
	text, err := e.text(v)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseInt(string(text), 10, 64); err != nil {
		return e.refuse("is %s, which is not a 64-bit integer", text)
	}
	e.json = append(e.json, text...)
	return nil
}

// addObject adds an object, an array, or an object that stands for a simple value.
func (e *encoder) addObject(v value) error {
	if e.isFunction(v) {
		return e.refuse("is a function")
	}
	class := libquickjs.XJS_GetClassID(e.tls, v)
	if instead := insteadOf(class); instead != "" {
		return e.refuse("is %s", instead)
	}
	switch class {
	case libquickjs.EJS_CLASS_STRING:
		return e.addString(v)
	case libquickjs.EJS_CLASS_NUMBER:
		return e.addPrimitive(e.numberOf, v)
	case libquickjs.EJS_CLASS_BOOLEAN:
		return e.addPrimitive(e.booleanOf, v)
	case libquickjs.EJS_CLASS_BIG_INT:
		return e.addPrimitive(e.bigIntOf, v)
	case libquickjs.EJS_CLASS_RAWJSON:
		return e.addRaw(v)
	}
	if slices.Contains(e.above, v) {
		return e.refuse("contains itself")
	}
	if len(e.above) == depth {
		return &script.Error{Message: "the response is too deep", Limit: limitOfDepth}
	}
	e.above = append(e.above, v)
	array, err := e.isArray(v)
	switch {
	case err != nil:
	case array:
		err = e.addElements(v)
	default:
		err = e.addProperties(v)
	}
	e.above = e.above[:len(e.above)-1]
	return err
}

// addPrimitive adds what an object stands for. Its text may be anything: an object can have a toString of its own.
func (e *encoder) addPrimitive(of, object value) error {
	primitive, err := e.call(of, object)
	if err != nil {
		return err
	}
	return e.add(primitive)
}

// insteadOf names classes whose objects are {} in JSON, or an object with a property for each byte; "" for others.
func insteadOf(class libquickjs.TJSClassID) string {
	switch {
	case class == libquickjs.EJS_CLASS_ERROR:
		return "an Error: return its message"
	case class == libquickjs.EJS_CLASS_REGEXP:
		return "a RegExp: return its source"
	case class == libquickjs.EJS_CLASS_PROMISE:
		return "a Promise: await it"
	case class == libquickjs.EJS_CLASS_WEAKMAP, class == libquickjs.EJS_CLASS_WEAKSET:
		return "a WeakMap or WeakSet"
	case class == libquickjs.EJS_CLASS_UINT8_ARRAY:
		return "a Uint8Array: return its toBase64(), or [...array]"
	case class >= libquickjs.EJS_CLASS_ARRAY_BUFFER && class <= libquickjs.EJS_CLASS_DATAVIEW:
		return "binary data: return [...array], or toBase64() of a Uint8Array"
	case class >= libquickjs.EJS_CLASS_ITERATOR && class <= libquickjs.EJS_CLASS_GENERATOR, class == libquickjs.EJS_CLASS_ASYNC_GENERATOR:
		return "an iterator: return [...iterator]"
	}
	return ""
}

// addRaw adds what JSON.rawJSON made.
func (e *encoder) addRaw(v value) error {
	raw, err := e.get(v, libquickjs.EJS_ATOM_rawJSON)
	if err != nil {
		return err
	}
	return e.addText(raw)
}

// addText adds a string that is JSON.
func (e *encoder) addText(v value) error {
	text, err := e.text(v)
	e.json = append(e.json, text...)
	return err
}

func (e *encoder) addElements(array value) error {
	length, err := e.lengthOf(array)
	if err != nil {
		return err
	}
	e.json = append(e.json, '[')
	for i := range length {
		if i > 0 {
			e.json = append(e.json, ',')
		}
		element, err := e.result(libquickjs.XJS_GetPropertyUint32(e.tls, e.context, array, i))
		if err != nil {
			return err
		}
		e.path = append(e.path, step{index: i})
		if element, err = e.resolve(element); err != nil {
			return err
		}
		if err := e.add(element); err != nil {
			return err
		}
		e.path = e.path[:len(e.path)-1]
	}
	e.json = append(e.json, ']')
	return e.checkMemory()
}

func (e *encoder) lengthOf(array value) (uint32, error) {
	length, err := e.get(array, libquickjs.EJS_ATOM_length)
	if err == nil && libquickjs.XJS_ToInt64Clamp(e.tls, e.context, e.shared.length(), length, 0, math.MaxUint32, 0) != 0 {
		err = e.exception()
	}
	return uint32(read[int64](e.shared.length())), err
}

func (e *encoder) addProperties(object value) error {
	const flags = libquickjs.MJS_GPN_STRING_MASK | libquickjs.MJS_GPN_ENUM_ONLY
	table, count := e.shared.argument(), e.shared.length()
	if libquickjs.XJS_GetOwnPropertyNames(e.tls, e.context, table, count, object, flags) != 0 {
		return e.exception()
	}
	properties, n := read[uintptr](table), uintptr(read[uint32](count))
	defer libquickjs.Xjs_free(e.tls, e.context, properties)
	e.json = append(e.json, '{')
	start := len(e.json)
	for i := range n {
		property := read[libquickjs.TJSPropertyEnum](properties + i*sizeOfProperty).Fatom
		v, err := e.get(object, property)
		if err != nil {
			return err
		}
		if err := e.addProperty(property, v, len(e.json) > start); err != nil {
			return err
		}
	}
	e.json = append(e.json, '}')
	return e.checkMemory()
}

// addProperty adds a property unless it is undefined.
func (e *encoder) addProperty(property libquickjs.TJSAtom, v value, comma bool) (err error) {
	e.path = append(e.path, step{property: property})
	if v, err = e.resolve(v); err != nil {
		return err
	}
	if v.Ftag != libquickjs.EJS_TAG_UNDEFINED {
		if comma {
			e.json = append(e.json, ',')
		}
		if err := e.addString(libquickjs.XJS_AtomToString(e.tls, e.context, property)); err != nil {
			return err
		}
		e.json = append(e.json, ':')
		if err := e.add(v); err != nil {
			return err
		}
	}
	e.path = e.path[:len(e.path)-1]
	return nil
}

// checkMemory counts the response like memory of the VM: a value that is in many places is written many times.
func (e *encoder) checkMemory() error {
	if limit := e.memory.limit; limit > 0 && e.memory.used+size(len(e.json)) > limit {
		return e.outOfMemory()
	}
	return nil
}
