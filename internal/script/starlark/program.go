package starlark

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.starlark.net/lib/json"
	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// program is the frozen globals of a file.
type program struct {
	entry     string
	functions map[string]*starlark.Function
}

func (p *program) Functions() []string { return slices.Sorted(maps.Keys(p.functions)) }

func (p *program) Call(c *script.Call) ([]byte, error) {
	thread := newThread(c.Log, c.Deadline)
	startime.SetNow(thread, func() (time.Time, error) { return c.Time.UTC(), nil })
	request, err := starlark.Call(thread, json.Module.Members["decode"], starlark.Tuple{starlark.String(c.Request)}, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the request: %w", err)
	}
	function, exists := p.functions[c.Function]
	if !exists {
		return nil, &script.Error{Message: p.entry + " has no function " + c.Function}
	}
	result, err := starlark.Call(thread, function, starlark.Tuple{request}, nil)
	if err != nil {
		return nil, asError(err)
	}
	response, err := encode(result, c.Function)
	if err != nil {
		return nil, at(function.Position(), err.Error())
	}
	return response, nil
}
