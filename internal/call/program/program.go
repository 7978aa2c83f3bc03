// Package program calls exec hooks: programs beside Setpoint that read a request from each line
// of their standard input, and write a response to each line of their standard output.
//
// Package child has the processes, compile decides what is called, and cli in which directory
// programs are.
package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// Opener opens the programs of exec hooks.
type Opener struct {
	// Dirs are the directories that programs may be in. A program runs in the first that has it.
	Dirs    []string
	Limiter *child.Limiter
	Log     *slog.Logger

	startReaper sync.Once
	// reaper kills the programs when this one ends. It is nil if there is no shell: then they see the
	// end of their input.
	reaper *process.Reaper
}

// Open implements the field Exec of compile.Environment.
func (o *Opener) Open(c call.Command) (call.Transport, error) {
	dir, file, err := o.find(c.Args[0])
	if err != nil {
		return nil, err
	}
	o.startReaper.Do(func() { o.reaper, _ = process.NewReaper() })
	p := &program{name: c.Args[0], timeout: c.Timeout, files: filesOf(dir, file, c.Args[1:])}
	p.versions = versionsOf(p.files)
	p.pool = child.New(child.Config{
		Controller: c.Controller, Limiter: o.Limiter, Log: child.LogTo(o.Log, c.Controller),
		Command: process.Command{Args: append([]string{file}, c.Args[1:]...), Dir: dir, Reaper: o.reaper},
	})
	return p, nil
}

// program is the transport of an exec hook.
type program struct {
	pool *child.Pool
	// name is the program as in the spec.
	name    string
	timeout time.Duration
	// files are the program and its arguments that may be files.
	files []string

	mu sync.Mutex
	// versions are those of the files when processes were started.
	versions []version
}

// Timeout implements call.Transport.
func (p *program) Timeout() time.Duration { return (&child.Call{Timeout: p.timeout}).Longest() }

// Close implements call.Transport.
func (p *program) Close() { p.pool.Close() }

// Exchange implements call.Transport.
func (p *program) Exchange(ctx context.Context, req *call.Request, result *call.Result) (call.Response, error) {
	p.restartChanged()
	var line []byte
	var own error
	limits := child.Call{Object: req.Object, Timeout: p.timeout, MaxBytes: req.Limits.MaxResponseBytes}
	err := p.pool.Do(ctx, limits, func(conn *child.Conn) (err error) {
		if line, err = conn.RoundTrip(req.Body); err != nil {
			return err
		}
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

// maxRetryAfter limits the delay that a program can request.
const maxRetryAfter = 24 * time.Hour

// beforeError are the beginnings of an error of the program, without spaces: objects have no order.
var beforeError = []string{`{"error":`, `{"retryAfterSeconds":`}

// check returns the program's own error. err means that the line is no JSON: what follows may belong
// to it, so the program is restarted.
func check(line []byte, limits call.Limits) (own, err error) {
	if err := limits.CheckValues(line); err != nil {
		return nil, err
	}
	if !json.Valid(line) {
		return nil, &hook.MalformedError{Err: errors.New("the line is not a JSON document: " + call.Quote(string(line), limits.MaxErrorBytes))}
	}
	return ownError(line, limits), nil
}

// ownError returns the error in a response; nil if it has none. The error of a handler is an object, and
// part of its response.
func ownError(line []byte, limits call.Limits) error {
	var failed struct {
		Error             string
		RetryAfterSeconds float64
	}
	const most = 64 // More would be for spaces only.
	beginning := string(bytes.ReplaceAll(line[:min(len(line), most)], []byte(" "), nil))
	mayBe := slices.ContainsFunc(beforeError, func(prefix string) bool { return strings.HasPrefix(beginning, prefix) })
	isError := mayBe && json.Unmarshal(line, &failed) == nil && failed.Error != ""
	if !isError {
		return nil
	}
	own := &Failed{call.Quote(failed.Error, limits.MaxErrorBytes)}
	if after := min(failed.RetryAfterSeconds, maxRetryAfter.Seconds()); after > 0 {
		return &hook.RetryAfterError{After: time.Duration(after * float64(time.Second)), Err: own}
	}
	return own
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
		return &hook.UnreachableError{Err: err}
	}
	return err
}
