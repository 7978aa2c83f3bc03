package javascript

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"modernc.org/libquickjs"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// exception is the error of the pending exception.
func (m *vm) exception() error {
	return m.describeError(libquickjs.XJS_GetException(m.tls, m.context))
}

const limitOfDepth = "the depth of calls"

// roomForErrors is what describing an error may take when no memory is left.
const roomForErrors = 1 << 20

// describeError is the error of a value that was thrown.
func (m *vm) describeError(thrown value) error {
	if m.memory.exceeded && thrown.Ftag == libquickjs.EJS_TAG_NULL {
		return m.outOfMemory()
	}
	m.memory.reserve = roomForErrors
	description, err := m.describeWith(thrown)
	m.memory.reserve = 0
	if err != nil {
		return &script.Error{Message: "an exception that cannot be described"}
	}
	e := &script.Error{Message: script.OneLine(description.Message)}
	m.addStack(e, description.Stack)
	switch e.Message {
	case "InternalError: out of memory":
		e.Limit = m.memory.limitText()
	case "InternalError: stack overflow", "SyntaxError: stack overflow":
		e.Limit = limitOfDepth
	}
	return e
}

type description struct{ Message, Stack string }

func (m *vm) describeWith(thrown value) (d description, err error) {
	v := m.rawCall(m.describe, thrown)
	text, known := m.rawText(v)
	if !known {
		return d, errOutOfMemory
	}
	err = json.Unmarshal(text, &d)
	return d, err
}

func (m *vm) outOfMemory() error {
	return &script.Error{Message: "out of memory", Limit: m.memory.limitText()}
}

// maxFrames bounds the stack of an error.
const maxFrames = 20

// addStack adds the frames of the author's files and of functions of the language, such as map. The
// first with a line is the place of the error.
func (m *vm) addStack(e *script.Error, stack string) {
	for line := range strings.Lines(stack) {
		if len(e.Stack) == maxFrames {
			return
		}
		frame := strings.TrimPrefix(strings.TrimSpace(line), "at ")
		function, place, inParentheses := strings.Cut(strings.TrimSuffix(frame, ")"), " (")
		if !inParentheses {
			function, place = "", frame
		}
		file, ln, column := parsePlace(place)
		if !m.sources[file] && place != "native" {
			continue
		}
		if e.File == "" && ln > 0 {
			e.File, e.Line, e.Column = file, ln, column
		}
		if function == "" || function == "<eval>" || function == "<anonymous>" {
			e.Stack = append(e.Stack, place)
			continue
		}
		e.Stack = append(e.Stack, function+" ("+place+")")
	}
}

// parsePlace parses "sync.js:12:5".
func parsePlace(place string) (file string, line, column int) {
	found := placePattern.FindStringSubmatch(place)
	if found == nil {
		return place, 0, 0
	}
	line, _ = strconv.Atoi(found[2])
	column, _ = strconv.Atoi(found[3])
	return found[1], line, column
}

var placePattern = regexp.MustCompile(`^(.*):(\d{1,9}):(\d{1,9})$`)
