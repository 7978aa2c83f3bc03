// Package program calls exec hooks: programs beside Setpoint that read a request from each line
// of their standard input, and write a response to each line of their standard output.
//
// Package child has the processes, compile decides what is called, and cli in which directory
// programs are.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Opener opens the programs of exec hooks.
type Opener struct {
	// Dirs are the directories that programs may be in. A program runs in the first that has it.
	Dirs []string
	// Limiter bounds the processes of all hooks but those of reviews, which ReviewLimiter bounds.
	Limiter, ReviewLimiter *child.Limiter
	Log                    *slog.Logger
	// WatchHelpers restarts a program also when a file with its extension in its folder has changed, such as a
	// module. It is for development.
	WatchHelpers bool

	// check refuses programs; nil for none.
	check       func(call.Command) error
	startReaper sync.Once
	// reaper kills the programs when this one ends. It is nil if there is no shell: then they see the
	// end of their input.
	reaper *process.Reaper

	mu   sync.Mutex
	open map[*program]struct{}
}

// Open implements the field Exec of compile.Environment.
func (o *Opener) Open(c call.Command) (call.Transport, error) {
	if o.check != nil {
		if err := o.check(c); err != nil {
			return nil, err
		}
	}
	dir, file, err := o.find(c.Args[0])
	if err != nil {
		return nil, err
	}
	o.startReaper.Do(func() { o.reaper, _ = process.NewReaper() })
	p := &program{opener: o, name: c.Args[0], timeout: c.Timeout, file: file, named: filesOf(dir, file, c.Args[1:])}
	p.versions = versionsOf(p.files())
	limiter := o.Limiter
	if c.Reviews {
		limiter = o.ReviewLimiter
	}
	p.pool = child.NewPool(child.Config{
		Controller: c.Controller, Owner: c.Owner, Limiter: limiter, Log: child.LogTo(o.Log, c.Controller),
		Command: process.Command{Args: append([]string{file}, c.Args[1:]...), Dir: dir, Reaper: o.reaper, KillDetached: true},
		Check: func() error { // A link may lead elsewhere by now.
			_, err := findIn(dir, p.name)
			return err
		},
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = map[*program]struct{}{}
	}
	o.open[p] = struct{}{}
	return p, nil
}

// Limit has a program refused if check returns an error. It is called before the first program is opened.
func (o *Opener) Limit(check func(call.Command) error) { o.check = check }

// Using returns the names of the open programs that a change of a file restarts.
func (o *Opener) Using(file string) []string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
		file = filepath.Join(dir, filepath.Base(file)) // As the paths of programs are.
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var names []string
	for p := range o.open {
		if slices.Contains(p.files(), file) {
			names = append(names, p.name)
		}
	}
	return names
}

// program is the transport of an exec hook.
type program struct {
	pool *child.Pool
	// name is the program as in the spec.
	name    string
	timeout time.Duration
	opener  *Opener
	// file is the program. named are it and the arguments that are files.
	file  string
	named []string

	mu sync.Mutex
	// versions are those of the files when processes were started.
	versions []fs.FileInfo
	// code is that of the files since the first call.
	code call.Code
}

// Timeout implements call.Transport.
func (p *program) Timeout() time.Duration { return (&child.Call{Timeout: p.timeout}).Longest() }

// Close implements call.Transport.
func (p *program) Close() {
	p.opener.mu.Lock()
	delete(p.opener.open, p)
	p.opener.mu.Unlock()
	p.pool.Close()
}

// Exchange implements call.Transport.
func (p *program) Exchange(ctx context.Context, req *call.Request, result *call.Result) (call.Response, error) {
	printed := call.OutputOf(ctx)
	printed.Ran(p.restartChanged())
	var line []byte
	var own error
	limits := child.Call{Object: req.Object, Print: printed.Add, Timeout: p.timeout, MaxBytes: req.Limits.MaxResponseBytes}
	err := p.pool.Do(ctx, limits, func(conn *child.Conn) (err error) {
		if line, err = conn.RoundTrip(trace.Line(ctx, req.Body)); err != nil {
			return err
		}
		line = codec.WithoutMark(line)
		own, err = check(line, req.Limits)
		return err
	})
	result.BytesIn = len(line)
	switch {
	case err != nil:
		return call.Response{}, explain(err, req.Limits)
	case own != nil:
		result.Code = http.StatusInternalServerError
		return call.Response{}, own
	}
	result.Code = http.StatusOK
	return call.Response{Body: line}, nil
}

// check returns the program's own error. err means that the line is no JSON: what follows may belong
// to it, so the program is restarted.
func check(line []byte, limits call.Limits) (own, err error) {
	if err := limits.CheckValues(line); err != nil {
		return nil, err
	}
	if !json.Valid(line) {
		return nil, &hook.MalformedError{Err: errors.New("the line is not a JSON document: " +
			call.Quote(string(line), limits.MaxErrorBytes))}
	}
	return call.OwnError(line, limits), nil
}

// explain turns errors of a child into those of a hook.
func explain(err error, limits call.Limits) error {
	if _, tooLarge := errors.AsType[*child.SizeError](err); tooLarge {
		return limits.TooLarge()
	}
	if exit, is := errors.AsType[*child.ExitError](err); is {
		for i, line := range exit.Last {
			exit.Last[i] = call.Quote(line, limits.MaxErrorBytes)
		}
	}
	if _, is := errors.AsType[*child.StartError](err); is {
		return &hook.UnreachableError{Err: err, Connected: true}
	}
	return err
}

// Error is a failed call of a program.
type Error struct {
	// Name is the program as in the spec.
	Name string
	Err  error
}

func (e *Error) Error() string { return "exec " + e.Name + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fault classifies the error for user interfaces.
func (e *Error) Fault() *failure.Fault { return &failure.Fault{Kind: child.FaultKind(e.Err)} }

// Wrap implements call.Transport.
func (p *program) Wrap(_ call.HookType, err error) error { return &Error{p.name, err} }
