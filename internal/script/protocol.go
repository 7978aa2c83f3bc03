package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// Load is the first line to a child: the code of all its calls.
type Load struct {
	Language string            `json:"language"`
	Entry    string            `json:"entry"`
	Sources  map[string]string `json:"sources"`
	// Timeout is how long the top level may run, in nanoseconds; 0 for no limit.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// CallHeader is the line before the request of a call.
type CallHeader struct {
	Function string    `json:"function"`
	Time     time.Time `json:"time"`
	Seed     uint64    `json:"seed"`
	// Timeout is how long the call may take, in nanoseconds; 0 for no limit.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Output is a line of a child. Functions is the last line after Load, Response or Error the last one of a call.
// Any number of lines with Log may come before.
type Output struct {
	Functions []string        `json:"functions,omitzero"`
	Response  json.RawMessage `json:"response,omitempty"`
	Error     *Error          `json:"error,omitempty"`
	Log       *string         `json:"log,omitempty"`
}

// deadline is when the engine stops; zero for never.
func deadline(timeout time.Duration) time.Time {
	if timeout <= 0 {
		return time.Time{}
	}
	return time.Now().Add(timeout)
}

// The members around a response, which may be large: it is neither parsed nor copied here.
const beforeResponse, afterResponse = `{"response":`, "}"

func (r *Output) line() []byte {
	if r.Response != nil {
		line := make([]byte, 0, len(r.Response)+len(beforeResponse)+len(afterResponse)+1)
		return append(append(append(line, beforeResponse...), r.Response...), afterResponse+"\n"...)
	}
	text, _ := json.Marshal(r) //nolint:errchkjson // There is no response.
	return append(text, '\n')
}

// ParseOutput parses a line of a child. Response refers to the line, and may not be JSON.
func ParseOutput(line []byte) (Output, error) {
	if response, is := bytes.CutPrefix(line, []byte(beforeResponse)); is {
		if response, is = bytes.CutSuffix(response, []byte(afterResponse)); is {
			return Output{Response: response}, nil
		}
	}
	var parsed Output
	if err := json.Unmarshal(line, &parsed); err != nil {
		return Output{}, err
	}
	if parsed.Functions == nil && parsed.Error == nil && parsed.Log == nil {
		return Output{}, errors.New("a line without functions, response, error or log")
	}
	return parsed, nil
}
