package process

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// reaperScript reads process groups from its input and kills them when the input ends. The
// kernel closes the pipe however this program ends, kill -9 included. It is a shell script
// because a shell is everywhere, needs a megabyte, and works on Linux and macOS;
// PR_SET_PDEATHSIG exists on Linux only, and does not affect grandchildren.
const reaperScript = `
trap '' INT TERM HUP QUIT
held=
while read -r verb target; do
	kept=
	for t in $held; do [ "$t" = "$target" ] || kept="$kept $t"; done
	[ "$verb" = hold ] && kept="$kept $target"
	held=$kept
done
for t in $held; do kill -s KILL -- "$t" 2>/dev/null; done
`

// Reaper kills the started processes when this program ends. A nil Reaper starts programs and
// kills nothing, for images without a shell: where this program is the first of a container,
// all others end with it.
type Reaper struct {
	mu   sync.Mutex
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// NewReaper starts the reaper in a process group of its own, so that Ctrl-C at the terminal
// does not stop it.
func NewReaper() (*Reaper, error) {
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "setpoint-reaper")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the reaper: %w", err)
	}
	return &Reaper{pipe: pipe, cmd: cmd}, nil
}

// start starts a program and registers it. For a group of its own, a placeholder process
// opens the group and is registered first; the program joins it, and the placeholder exits.
// So the program can never outlive this one. Without ownGroup there is a gap of some
// microseconds, because the PID is not known before.
func (l *Reaper) start(cmd *exec.Cmd, ownGroup bool) (target, error) {
	if l == nil || !ownGroup {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: ownGroup}
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		started := target(cmd.Process.Pid)
		if ownGroup {
			started = group(cmd.Process.Pid)
		}
		l.send("hold", started)
		return started, nil
	}
	place, leave, err := placeholder()
	if err != nil {
		return 0, err
	}
	defer leave()
	l.send("hold", place)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: place.leader()}
	if err := cmd.Start(); err != nil {
		l.release(place)
		return 0, err
	}
	return place, nil
}

// placeholder opens a process group and keeps it open until release is called or this
// program ends.
func placeholder() (place target, leave func(), err error) {
	cmd := exec.Command("/bin/sh", "-c", "read -r _")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("open a process group: %w", err)
	}
	return group(cmd.Process.Pid), func() {
		_ = pipe.Close()
		_ = cmd.Wait()
	}, nil
}

func (l *Reaper) release(t target) { l.send("release", t) }

func (l *Reaper) send(verb string, t target) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.pipe, "%s %d\n", verb, t)
}

// Close kills all registered processes.
func (l *Reaper) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.pipe.Close()
	_ = l.cmd.Wait()
}

// target is an argument of kill(2): a process, or negative for a group.
type target int

func group(leader int) target { return target(-leader) }

// leader returns the PID of a group's leader.
func (t target) leader() int { return -int(t) }

func (t target) kill(sig syscall.Signal) { _ = syscall.Kill(int(t), sig) }
