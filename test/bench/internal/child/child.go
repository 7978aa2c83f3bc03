// Package child runs the processes of a bench: the control plane, the hook and
// the controllers. They end with the bench, however it ends, and leave a log.
package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end after SIGTERM.
const stopGrace = 15 * time.Second

// logTail is how much of a log an error shows.
const logTail = 2000

// Process is a running child.
type Process struct {
	name, log string
	command   *exec.Cmd
	firstLine chan string
	exited    chan struct{}
}

// Start runs a program. What it prints goes to NAME.log in dir.
func Start(dir, name, program string, args ...string) (*Process, error) {
	p := &Process{
		name:      name,
		log:       filepath.Join(dir, name+".log"),
		firstLine: make(chan string, 1),
		exited:    make(chan struct{}),
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.command = exec.Command(program, args...)
	p.command.Stderr = log
	p.command.SysProcAttr = dieWithParent()
	out, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.follow(out, log)
	return p, nil
}

// follow passes on the first line, logs all, and reaps the process.
func (p *Process) follow(out io.Reader, log *os.File) {
	reader := bufio.NewReader(out)
	line, _ := reader.ReadString('\n')
	p.firstLine <- line
	_, _ = log.WriteString(line)
	_, _ = io.Copy(log, reader)
	_ = p.command.Wait()
	_ = log.Close()
	close(p.exited)
}

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// FirstLine waits for the first line the process prints on standard output. It
// may be called once.
func (p *Process) FirstLine(ctx context.Context) (string, error) {
	select {
	case line := <-p.firstLine:
		if line == "" {
			<-p.exited
			return "", p.Err()
		}
		return line, nil
	case <-ctx.Done():
		return "", fmt.Errorf("wait for %s to say where it listens: %w", p.name, ctx.Err())
	}
}

// Err says how the process ended, with the end of its log, and is nil as long
// as it runs.
func (p *Process) Err() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended (%s); the end of %s:\n%s", p.name, p.command.ProcessState, p.log, p.tail())
	default:
		return nil
	}
}

func (p *Process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-logTail):]))
}

// Stop asks the process to end and waits until it has; one that does not is
// killed, which is an error.
func (p *Process) Stop() error {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.exited:
		return nil
	case <-grace.C:
		_ = p.command.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s did not end within %s and was killed", p.name, stopGrace)
	}
}

// Kill ends the process at once, without a word to it, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.exited
}
