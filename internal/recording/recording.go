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
	"slices"
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
func (c *Call) Request() (json.RawMessage, error) {
	var problems []error
	request, err := editObjects(c.Template, func(raw json.RawMessage) json.RawMessage {
		var digest string
		if json.Unmarshal(raw, &digest) != nil || digest == "" {
			return raw
		}
		value, err := c.find(digest)
		problems = append(problems, err)
		return value
	})
	if err != nil {
		return nil, fmt.Errorf("the request of %s: %w", c, err)
	}
	return request, errors.Join(problems...)
}

// editObjects returns a request with other values in place of its objects.
func editObjects(request json.RawMessage, edit func(json.RawMessage) json.RawMessage) (json.RawMessage, error) {
	return editMembers(request, func(name string, value json.RawMessage) (json.RawMessage, error) {
		switch {
		case string(value) == "null":
		case slices.Contains(objectFields[:], name):
			return edit(value), nil
		case slices.Contains(groupFields[:], name):
			return editMembers(value, func(_ string, group json.RawMessage) (json.RawMessage, error) {
				return editMembers(group, func(_ string, o json.RawMessage) (json.RawMessage, error) { return edit(o), nil })
			})
		}
		return value, nil
	})
}

// editMembers returns an object of JSON with other values.
func editMembers(in json.RawMessage, edit func(name string, value json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	err := object.Members(in, func(quoted, value []byte) error {
		var name string
		err := json.Unmarshal(quoted, &name)
		if err == nil {
			members[name], err = edit(name, value)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

func (c *Call) find(digest string) (json.RawMessage, error) {
	value, has := c.values[digest]
	if !has {
		return nil, fmt.Errorf("%s: the file lacks the value %q that it refers to", c, digest)
	}
	return value, nil
}

// String returns such as "sync of teams.example.com shop/red".
func (c *Call) String() string { return c.Hook + " of " + c.Object.String() }
