package script

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// Server is the main loop of a child.
type Server struct {
	// Engines are the languages by name.
	Engines map[string]Engine
	// MemoryBytes is how much memory the code may use.
	MemoryBytes int64
}

// Serve gives up whatever the code of an author must not have, reads the code from stdin and
// then makes one call after the other, until the parent process closes stdin or ends. It takes over
// the whole process.
func (s *Server) Serve() error {
	// Opened before the fence, which refuses what Go's poller does at its start.
	in, err := openStream(os.Stdin)
	if err != nil {
		return err
	}
	out, err := openStream(os.Stdout)
	if err != nil {
		return err
	}
	reader, lines := bufio.NewReaderSize(in, 64<<10), make(chan []byte)
	if err := raiseFence(s.MemoryBytes); err != nil {
		return fmt.Errorf("give up rights: %w", err)
	}
	go passLines(reader, lines)
	return s.serve(func() ([]byte, error) { return <-lines, nil }, out)
}

// openStream makes a pipe one that Go's poller watches: waiting for it takes no thread, so that the end of stdin is seen while
// code runs in a loop without end.
func openStream(f *os.File) (*os.File, error) {
	fd := int(f.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// serve loads the code and makes calls. next returns io.EOF at the end.
func (s *Server) serve(next func() ([]byte, error), out io.Writer) error {
	program, err := s.load(next, out)
	for err == nil {
		var c Call
		if c, err = readCall(next); err == nil {
			err = makeCall(program, &c, out)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// load compiles the code of the first line. After an error of the code there are no calls.
func (s *Server) load(next func() ([]byte, error), out io.Writer) (Program, error) {
	line, err := next()
	if err != nil {
		return nil, err
	}
	var load Load
	if err := json.Unmarshal(line, &load); err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	engine := s.Engines[load.Language]
	if engine == nil {
		return nil, fmt.Errorf("there is no engine for the language %q", load.Language)
	}
	log := &callLog{out: out}
	program, err := engine.Load(Files{
		Entry: load.Entry, Sources: load.Sources, MemoryBytes: s.MemoryBytes, Deadline: deadline(load.Timeout), Log: log.line,
	})
	log.end()
	if err != nil {
		_, err = out.Write((&Output{Error: asError(err)}).line())
		return nil, errors.Join(io.EOF, err)
	}
	_, err = out.Write((&Output{Functions: append([]string{}, program.Functions()...)}).line())
	return program, err
}

func readCall(next func() ([]byte, error)) (c Call, err error) {
	line, err := next()
	if err != nil {
		return c, err
	}
	var header CallHeader
	if err := json.Unmarshal(line, &header); err != nil {
		return c, fmt.Errorf("read a call: %w", err)
	}
	request, err := next()
	return Call{Function: header.Function, Request: request, Time: header.Time, Seed: header.Seed, Deadline: deadline(header.Timeout)}, err
}

func makeCall(program Program, c *Call, out io.Writer) error {
	log := &callLog{out: out}
	c.Log = log.line
	response, err := program.Call(c)
	output := Output{Response: response}
	if err != nil {
		output = Output{Error: asError(err)}
	}
	log.end()
	_, err = out.Write(output.line())
	if output.Error != nil && output.Error.Limit != "" {
		debug.FreeOSMemory() // An idle child would keep what the code took.
	}
	return err
}

func asError(err error) *Error {
	if own, is := errors.AsType[*Error](err); is {
		return own
	}
	return &Error{Message: err.Error()}
}

// passLines reads lines while code runs, and ends the process when the parent has ended.
func passLines(in *bufio.Reader, lines chan<- []byte) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		lines <- line[:len(line)-1]
	}
}

const (
	// maxLogLines and maxLogLine limit what one call logs.
	maxLogLines = 100
	maxLogLine  = 4 << 10
)

// callLog writes the log lines of one call.
type callLog struct {
	out   io.Writer
	lines int
}

func (l *callLog) line(text string) {
	l.lines++
	if l.lines <= maxLogLines {
		l.write(text)
	}
}

// end reports lines that were left out.
func (l *callLog) end() {
	if more := l.lines - maxLogLines; more > 0 {
		l.write(fmt.Sprintf("%d more lines; a call may log %d", more, maxLogLines))
	}
}

// write ignores errors: the response has the same one.
func (l *callLog) write(text string) {
	if len(text) > maxLogLine {
		text = strings.ToValidUTF8(text[:maxLogLine], "") + "…"
	}
	_, _ = l.out.Write((&Output{Log: &text}).line())
}
