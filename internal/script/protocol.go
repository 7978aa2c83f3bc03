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
}

// CallHeader is the line before the request of a call.
type CallHeader struct {
	Function string    `json:"function"`
	Time     time.Time `json:"time"`
	Seed     uint64    `json:"seed"`
}

// Reply is a line of a child. Functions ends the reply to Load, Response or Error that to a call.
// Any number of lines with Log may come before.
type Reply struct {
	Functions []string
	Response  []byte
	Error     *Error
	Log       *string
}

// replyJSON is the JSON form of a Reply.
type replyJSON struct {
	Functions []string        `json:"functions,omitzero"`
	Response  json.RawMessage `json:"response,omitempty"`
	Error     *errorJSON      `json:"error,omitempty"`
	Log       *string         `json:"log,omitempty"`
}

// errorJSON is the JSON form of an Error.
type errorJSON struct {
	File    string   `json:"file,omitempty"`
	Line    int      `json:"line,omitempty"`
	Column  int      `json:"column,omitempty"`
	Message string   `json:"message"`
	Stack   []string `json:"stack,omitempty"`
	Limit   string   `json:"limit,omitempty"`
}

// The members around a response, which may be large: it is neither parsed nor copied here.
const beforeResponse, afterResponse = `{"response":`, "}"

// appendLine appends the reply as a line.
func (r *Reply) appendLine(to []byte) []byte {
	if r.Response != nil {
		return append(append(append(to, beforeResponse...), r.Response...), afterResponse+"\n"...)
	}
	text, _ := json.Marshal(replyJSON{Functions: r.Functions, Error: (*errorJSON)(r.Error), Log: r.Log}) // All of it can be encoded.
	return append(append(to, text...), '\n')
}

// ParseReply parses a line of a child. Response refers to the line, and may not be JSON.
func ParseReply(line []byte) (Reply, error) {
	if response, is := bytes.CutPrefix(line, []byte(beforeResponse)); is {
		if response, is = bytes.CutSuffix(response, []byte(afterResponse)); is {
			return Reply{Response: response}, nil
		}
	}
	var parsed replyJSON
	if err := json.Unmarshal(line, &parsed); err != nil {
		return Reply{}, err
	}
	if parsed.Functions == nil && parsed.Error == nil && parsed.Log == nil {
		return Reply{}, errors.New("a line without functions, response, error or log")
	}
	return Reply{Functions: parsed.Functions, Error: (*Error)(parsed.Error), Log: parsed.Log}, nil
}
