package process

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
)

// reaperScript is what holds the other end of the leash: it remembers what is to be
// killed, and kills it when its input ends. That happens however this program
// ends, kill -9 included, since the kernel closes the pipe. It is a shell
// script because a shell is on every machine, takes a megabyte, and behaves
// alike on Linux and macOS, where PR_SET_PDEATHSIG does not exist (and which
// would spare what the child has started).
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

// Reaper ties started processes to the life of this program.
type Reaper struct {
	mu   sync.Mutex
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// NewReaper starts the keeper, in a group of its own so that a Ctrl-C at the
// terminal does not reach it.
func NewReaper() (*Reaper, error) {
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "setpoint-leash")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the keeper of processes: %w", err)
	}
	return &Reaper{pipe: pipe, cmd: cmd}, nil
}

// start starts a program and holds it. One in a group of its own is held before
// it lives: its group is opened by a placeholder, which is held, joined by the
// program, and then let go. So there is no moment at which the end of this
// program would leave it behind. For one in our own group there is, of some
// microseconds, since its number is not known before.
func (l *Reaper) start(cmd *exec.Cmd, ownGroup bool) (target, error) {
	if !ownGroup {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		l.send("hold", target(cmd.Process.Pid))
		return target(cmd.Process.Pid), nil
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

// placeholder opens a process group and keeps it open until leave is called or
// this program ends.
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
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.pipe, "%s %d\n", verb, t)
}

// Close kills what is still held.
func (l *Reaper) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.pipe.Close()
	_ = l.cmd.Wait()
}
