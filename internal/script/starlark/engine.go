// Package starlark runs inline hooks in Starlark, on go.starlark.net. It is the only package that
// imports it.
//
// Files run once and are frozen then, so a call cannot leave anything behind for the next one. The
// dialect is that of tools which Kubernetes users know, such as Tilt: sets, while, recursion, and
// statements at the top level.
package starlark

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"go.starlark.net/lib/json"
	"go.starlark.net/lib/math"
	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// Engine compiles Starlark files.
type Engine struct{}

// Load implements script.Engine.
func (Engine) Load(files script.Files) (script.Program, error) {
	if err := files.CheckEncoding(); err != nil {
		return nil, err
	}
	l := &loader{files: files, modules: map[string]*module{}}
	globals, err := l.run(files.Entry)
	if err != nil {
		return nil, asError(err)
	}
	p := &program{entry: files.Entry, functions: map[string]*starlark.Function{}}
	for name, v := range globals {
		if f, ok := v.(*starlark.Function); ok {
			p.functions[name] = f
		}
	}
	return p, nil
}

// predeclared are the names that every file has besides those of the language.
func predeclared() starlark.StringDict {
	return starlark.StringDict{
		"child":  starlark.NewBuiltin("child", child),
		"json":   json.Module,
		"math":   math.Module,
		"struct": starlark.NewBuiltin("struct", starlarkstruct.Make),
		"time":   startime.Module,
	}
}

// loader runs files, each once.
type loader struct {
	files   script.Files
	modules map[string]*module
}

type module struct {
	globals starlark.StringDict
	err     error
	done    bool
}

func (l *loader) run(name string) (starlark.StringDict, error) {
	m := &module{}
	l.modules[name] = m
	options := &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}
	thread := newThread(l.files.Log, l.files.Deadline)
	thread.Load = func(_ *starlark.Thread, specifier string) (starlark.StringDict, error) {
		return l.load(name, specifier)
	}
	startime.SetNow(thread, func() (time.Time, error) {
		return time.Time{}, errors.New("there is no time at the top level, which runs once for many calls; call time.now() in a function")
	})
	m.globals, m.err = starlark.ExecFileOptions(options, thread, name, l.files.Sources[name], predeclared())
	m.done = true
	return m.globals, m.err
}

// load is called for each load statement.
func (l *loader) load(from, specifier string) (starlark.StringDict, error) {
	name := path.Join(path.Dir(from), specifier)
	if _, exists := l.files.Sources[name]; !exists {
		return nil, l.noModule(from, specifier)
	}
	m, loaded := l.modules[name]
	switch {
	case !loaded:
		return l.run(name)
	case !m.done:
		return nil, fmt.Errorf("%s and %s load each other", from, name)
	}
	return m.globals, m.err
}

func (l *loader) noModule(from, specifier string) error {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(l.files.Sources)), func(name string) bool { return name == from })
	if len(names) == 0 {
		return fmt.Errorf("there is no module %q, and no other", specifier)
	}
	return fmt.Errorf("there is no module %q; there is %s", specifier, strings.Join(names, ", "))
}

func newThread(log func(string), deadline time.Time) *starlark.Thread {
	t := &starlark.Thread{Print: func(_ *starlark.Thread, message string) {
		if log == nil {
			return
		}
		for line := range strings.SplitSeq(message, "\n") {
			log(line)
		}
	}}
	l := &limits{deadline: deadline}
	t.OnMaxSteps = l.check
	t.SetMaxExecutionSteps(stepsBetweenChecks)
	return t
}

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
