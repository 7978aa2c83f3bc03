// Package recording keeps calls of hooks in a file: requests and responses with their causes, to test other
// logic with them later.
//
// A Recorder takes the runs of a process, replaces values of Secrets by tokens, and writes calls in a bounded
// file or stream; a Reader reads them. The package calls no hooks: `setpoint record` makes cases of the calls. The
// manager owns the recorders of a process, and the dashboard's history uses the tokens.
package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Call is a recorded call of a hook.
type Call struct {
	// Time is when the run began, Duration that of the call.
	Time     time.Time     `json:"time"`
	Duration time.Duration `json:"durationNanoseconds"`
	// Process and Controller are the names in logs, such as "compositecontroller.setpoint.dev/teams".
	Process    string `json:"process,omitempty"`
	Controller string `json:"controller"`
	// Hook is sync, finalize, customize, or the name of a handler or webhook.
	Hook   string     `json:"hook"`
	Object object.Ref `json:"object"`
	// Causes and Outcome are those of the run.
	Causes  []string `json:"causes,omitempty"`
	Outcome string   `json:"outcome"`
	// Error is why there is no response, or what the response says.
	Error string `json:"error,omitempty"`
	// Template is the request with digests in place of objects; Request has the objects.
	Template json.RawMessage `json:"request,omitempty"`
	// ResponseDigest is that of the response; empty if there is none.
	ResponseDigest string `json:"response,omitempty"`

	// values are the objects and responses of the segment by digest, which the next call may change.
	values map[string]json.RawMessage
}

// The fields of requests with an object, and with groups of objects.
var (
	objectFields = [...]string{"controller", "parent", "object", "previousState", "oldObject"}
	groupFields  = [...]string{"children", "attachments", "related", "owned"}
)

// Response returns the response as a hook writes it; nil if there is none. Response and Request are to be called
// before the next Reader.Next.
func (c *Call) Response() (json.RawMessage, error) {
	if c.ResponseDigest == "" {
		return nil, nil
	}
	return c.find(c.ResponseDigest)
}

// Request returns the request as a hook gets it in version v2.
func (c *Call) Request() (map[string]json.RawMessage, error) {
	return c.requestWith(func(object json.RawMessage) json.RawMessage { return object })
}

// requestWith returns the request with other values in place of its objects.
func (c *Call) requestWith(edit func(json.RawMessage) json.RawMessage) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(c.Template, &fields); err != nil {
		return nil, fmt.Errorf("the request of %s: %w", c, err)
	}
	var problems []error
	expand := func(raw json.RawMessage) json.RawMessage {
		var digest string
		if json.Unmarshal(raw, &digest) != nil || digest == "" {
			return raw
		}
		value, err := c.find(digest)
		if err != nil {
			problems = append(problems, err)
			return nil
		}
		return edit(value)
	}
	for _, name := range objectFields {
		if fields[name] != nil {
			fields[name] = expand(fields[name])
		}
	}
	for _, name := range groupFields {
		if fields[name] != nil {
			var err error
			fields[name], err = expandGroups(fields[name], expand)
			problems = append(problems, err)
		}
	}
	return fields, errors.Join(problems...)
}

func expandGroups(raw json.RawMessage, expand func(json.RawMessage) json.RawMessage) (json.RawMessage, error) {
	var groups map[string]map[string]json.RawMessage
	if err := json.Unmarshal(raw, &groups); err != nil {
		return nil, err
	}
	for _, group := range groups {
		for key, digest := range group {
			group[key] = expand(digest)
		}
	}
	return json.Marshal(groups)
}

// find returns a value of the file.
func (c *Call) find(digest string) (json.RawMessage, error) {
	value, has := c.values[digest]
	if !has {
		return nil, fmt.Errorf("%s: the file lacks the value %q that it refers to", c, digest)
	}
	return value, nil
}

// String returns such as "sync of teams.example.com shop/red".
func (c *Call) String() string { return c.Hook + " of " + c.Object.String() }
