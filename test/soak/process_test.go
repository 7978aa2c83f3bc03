package soak

import (
	"os"
	"os/exec"
	"syscall"
)

// process is a program that runs beside the test and ends with it.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a program whose output is added to a log.
func start(log, program string, args ...string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close() // the program has its own copy
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill is kill -9.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// stop asks it to end.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	<-p.ended
}

// tail is the end of a log.
func tail(log string) string {
	const size = 4000
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-size):])
}
