package test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// notices receives what is printed.
type notices chan string

func (n notices) Write(p []byte) (int, error) {
	n <- string(p)
	return len(p), nil
}

// TestAnOperatorThatIsNotImported shows that a file that waits for ever ends the tests, and that a line says so before.
func TestAnOperatorThatIsNotImported(t *testing.T) {
	printed := make(notices, 1)
	var line string
	_, err := opening{"the operator slow", printed, 100 * time.Millisecond, 0}.wait(t.Context(), func(ctx context.Context) (workspace.Operator, error) {
		line = <-printed
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "the operator slow was not imported within 100ms: ") {
		t.Error(err)
	}
	if line != "waiting for the operator slow to be imported, up to 100ms\n" {
		t.Error(line)
	}
}

// TestAnOperatorThatFails keeps the error of a process that ends, and that of Ctrl-C.
func TestAnOperatorThatFails(t *testing.T) {
	broken := errors.New("cannot be imported")
	ended, end := context.WithCancel(t.Context())
	end()
	for _, ctx := range []context.Context{t.Context(), ended} {
		_, err := opening{"x", make(notices, 1), time.Hour, time.Hour}.wait(ctx, func(context.Context) (workspace.Operator, error) { return nil, broken })
		if !errors.Is(err, broken) || err.Error() != broken.Error() {
			t.Error(err)
		}
	}
}
