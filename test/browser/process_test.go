package browser

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// process is a program that runs until the test ends.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a program. Its output is shown if the test fails.
func start(t *testing.T, log, program string, args ...string) *process {
	t.Helper()
	output := valueOf(os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(t)
	defer output.Close() // the program has its own copy
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	succeed(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its log shows how it ended
	}()
	t.Cleanup(func() {
		p.stop()
		if said, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s %s:\n%s", program, args[0], cut(string(said)))
		}
	})
	return p
}

// stop terminates it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
}
