package record

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// printCases prints the calls in a file as cases of `setpoint test`: of equal requests the latest.
func printCases(p *command.Invocation, file string, filter recording.Filter) error {
	latest := map[[sha256.Size]byte]int{}
	if _, err := readCalls(file, filter, func(number int, call *recording.Call) error {
		latest[requestKey(call)] = number
		return nil
	}); err != nil {
		return err
	}
	written := 0
	reader, err := readCalls(file, filter, func(number int, call *recording.Call) error {
		if latest[requestKey(call)] != number {
			return nil
		}
		text, err := caseOf(call, number)
		if err == nil && written > 0 {
			text = "---\n" + text
		}
		if err == nil {
			written++
			_, err = io.WriteString(p.Stdout, text)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, note := range []struct {
		is   bool
		text string
	}{
		{reader.IsCut(), "ends in the middle: its process has crashed, or still writes"},
		{reader.Totals != recording.Totals{}, fmt.Sprintf("lacks calls: %d came too fast, %d are too large",
			reader.Totals.Dropped, reader.Totals.Oversized)},
		{written == 0, "has no such call"},
	} {
		if note.is {
			fmt.Fprintf(p.Stderr, "note: %s %s\n", output.Clean(file), note.text)
		}
	}
	return nil
}

// requestKey identifies a request of a hook.
func requestKey(call *recording.Call) [sha256.Size]byte {
	return sha256.Sum256([]byte(call.Controller + "\n" + call.Hook + "\n" + string(call.Template)))
}

// caseOf returns a call as a case, which has its number in the name.
func caseOf(call *recording.Call, number int) (string, error) {
	made, err := callOf(call)
	if err != nil {
		return "", err
	}
	run := inspect.Run{
		ID: uint64(number), Controller: call.Controller, Object: call.Object, Began: call.Time, Causes: call.Causes,
		Steps: []inspect.Step{{Call: made}},
	}
	return inspect.Cases(&run)
}

// callOf returns a recorded call as the history has it.
func callOf(call *recording.Call) (*inspect.Call, error) {
	request, err := call.Request()
	if err != nil {
		return nil, err
	}
	response, err := call.Response()
	return &inspect.Call{Name: call.Hook, Request: request, Response: response, Error: call.Error}, err
}

// readCalls calls a function with the calls in a file that the filter selects, and their numbers. It returns what has read
// them.
func readCalls(file string, filter recording.Filter, each func(number int, call *recording.Call) error) (*recording.Reader, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	reader := recording.NewReader(in)
	for number := 1; err == nil; number++ {
		var call *recording.Call
		if call, err = reader.Next(); err == nil && filter.Selects(call.Controller, call.Object) {
			err = each(number, call)
		}
	}
	if errors.Is(err, io.EOF) {
		return reader, nil
	}
	return nil, fmt.Errorf("%s: %w", file, err)
}
