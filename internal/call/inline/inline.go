// Package inline calls the code of inline hooks, which runs in child processes of this program.
//
// It is the parent's side of the protocol of package script. Package child has the processes,
// script/… the engines, and compile decides what is called. Package cli connects them: programs of
// the SDK do not run scripts.
package inline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// Compiler compiles the code of inline hooks.
type Compiler struct {
	// Command starts an engine, which serves package script at its standard streams.
	Command []string
	// MemoryBytes is the limit that the engine has for its memory.
	MemoryBytes int64
	// Limiter bounds the processes of all hooks but those of reviews, which ReviewLimiter bounds.
	Limiter, ReviewLimiter *child.Limiter
	Log                    *slog.Logger

	former formerCode
}

// loadTimeout is how long code may take to load. A starved machine starts programs slowly.
const loadTimeout = 15 * time.Second

// killGrace is how long code may take beyond its limit before its process is killed. Until then the
// engine stops it, if it can, and says where it was.
const killGrace = 500 * time.Millisecond

// Compile compiles a script. An error in the code is a *call.SourceError. The caller closes the
// program.
func (c *Compiler) Compile(ctx context.Context, s call.Script) (call.Program, error) {
	p := &program{memory: c.MemoryBytes, sources: s.Sources, place: s.Place, former: &c.former}
	digest := sha256.Sum256(encode([]any{s.Language, s.Entry, s.Sources}))
	p.code = call.Code{Digest: hex.EncodeToString(digest[:]), Since: time.Now(), Holder: s.Holder}
	p.code.Keep(textOf(s))
	limiter := c.Limiter
	if s.Reviews {
		limiter = c.ReviewLimiter
	}
	load := encode(script.Load{Language: s.Language, Entry: s.Entry, Sources: s.Sources, Timeout: loadTimeout})
	p.pool = child.NewPool(child.Config{
		Controller: s.Controller, Owner: s.Owner, Limiter: limiter, Log: child.LogTo(c.Log, s.Controller),
		// What the engine itself writes to its standard error is a part of errors.
		QuietStderr:  true,
		Command:      process.Command{Args: c.Command, OnlyEnv: true, Dir: "/"},
		BeginTimeout: loadTimeout + killGrace,
		Begin:        func(conn *child.Conn) error { return p.load(conn, load) },
	})
	// The child stays for the first call.
	if err := p.pool.Do(ctx, child.Call{Timeout: 2 * loadTimeout}, func(*child.Conn) error { return nil }); err != nil {
		p.Close()
		return nil, p.loadError(ctx, s.Entry, err)
	}
	return p, nil
}

// program is loaded code.
type program struct {
	pool   *child.Pool
	memory int64
	// sources are the files by name.
	sources map[string]string
	place   func(file string) string
	code    call.Code
	former  *formerCode
	// ran reports that a function was called: no history needs other code.
	ran atomic.Bool
	// functions are those of the first child; all have the same.
	functions []string
}

// load sends the code to a new child.
func (p *program) load(conn *child.Conn, load []byte) error {
	output, err := roundTrip(conn, load)
	switch {
	case err != nil:
		return err
	case output.Error != nil:
		return output.Error
	case output.Functions == nil:
		return errUnexpected
	}
	if p.functions == nil {
		p.functions = output.Functions
	}
	return nil
}

// loadError tells errors of the code from those of this program.
func (p *program) loadError(ctx context.Context, entry string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	tooLate := fmt.Sprintf("did not load within %s", loadTimeout)
	if wrong, is := errors.AsType[*script.Error](err); is {
		e := &call.SourceError{File: cmp.Or(wrong.File, entry), Line: wrong.Line, Column: wrong.Column, Message: p.messageOf(wrong, 0)}
		if wrong.Limit == script.TimeLimit {
			e.Message = tooLate
		}
		return e
	}
	if limit := p.exceeded(err); limit != nil {
		return &call.SourceError{File: entry, Message: limit.Error()}
	}
	if _, late := errors.AsType[*child.TimeoutError](err); late {
		return &call.SourceError{File: entry, Message: tooLate}
	}
	return fmt.Errorf("start the engine: %w", err)
}

// Functions implements call.Program.
func (p *program) Functions() []string { return p.functions }

// Function implements call.Program.
func (p *program) Function(name string, timeout time.Duration) call.Transport {
	return &function{program: p, name: name, timeout: timeout}
}

// Close implements call.Program.
func (p *program) Close() {
	p.pool.Close()
	if p.ran.Load() {
		p.former.add(p.code)
	}
}

// maxFormerBytes bounds the texts of code that no longer runs.
const maxFormerBytes = 1 << 20

// formerCode keeps the texts of the code that ran last, so that the history can tell what changed.
type formerCode struct {
	mu    sync.Mutex
	codes []call.Code
	bytes int
}

// add adds code that no longer runs, and forgets the oldest texts beyond the bound.
func (f *formerCode) add(code call.Code) {
	f.mu.Lock()
	defer f.mu.Unlock()
	code = code.WithSource()
	f.codes, f.bytes = append(f.codes, code), f.bytes+len(code.Source)
	for f.bytes > maxFormerBytes {
		f.bytes -= len(f.codes[0].Source)
		f.codes[0].Forget()
		f.codes = f.codes[1:]
	}
}

// textOf returns the files of a script, that with the functions first. Others have their names above them.
func textOf(s call.Script) string {
	var text strings.Builder
	text.WriteString(s.Sources[s.Entry])
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		if name != s.Entry {
			text.WriteString("\n--- " + name + "\n" + s.Sources[name])
		}
	}
	return text.String()
}
