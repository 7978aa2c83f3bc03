//go:build linux || darwin

package dev

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lookAgain is how often a terminal that sends nothing is looked at: the session may have ended, or come to the foreground.
const lookAgain = 250 * time.Millisecond

// terminal is one whose keys are read one by one, without Enter. Output and the keys for signals stay as they are.
type terminal struct {
	fd      int
	signals chan os.Signal

	mu sync.Mutex
	// before are the settings to return to.
	before unix.Termios
	lent   bool
	closed bool
}

// openTerminal starts to read keys; nil if they go to another program.
func openTerminal(file *os.File) *terminal {
	t := &terminal{fd: int(file.Fd()), signals: make(chan os.Signal, 4)}
	before, err := unix.IoctlGetTermios(t.fd, getTermios)
	if err != nil || !t.isForeground() {
		return nil
	}
	t.before = *before
	t.readKeys()
	signal.Notify(t.signals, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGQUIT)
	go t.handleSignals()
	return t
}

// handleSignals gives the terminal back before this program stops or ends.
func (t *terminal) handleSignals() {
	for caught := range t.signals {
		switch caught {
		case syscall.SIGTSTP:
			t.restore()
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		case syscall.SIGQUIT:
			t.restore()
			signal.Reset(syscall.SIGQUIT)
			_ = unix.Kill(os.Getpid(), unix.SIGQUIT) // For the dump of goroutines.
		default:
			t.readKeys()
		}
	}
}

// readKeys turns off lines and echo, unless another program has the terminal.
func (t *terminal) readKeys() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lent || t.closed {
		return
	}
	now := t.before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	t.set(now)
}

// restore returns to the settings before.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(t.before)
}

// set changes the settings. In the background they are those of another program.
func (t *terminal) set(settings unix.Termios) {
	if t.isForeground() {
		_ = unix.IoctlSetTermios(t.fd, setTermios, &settings)
	}
}

// close gives the terminal back for good.
func (t *terminal) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.set(t.before)
		signal.Stop(t.signals)
		close(t.signals)
	}
}

// lend runs a program that uses the terminal, and takes the terminal back even if the program was killed.
func (t *terminal) lend(run func() error) error {
	t.setLent(true)
	defer func() {
		signal.Ignore(syscall.SIGTTOU) // The program may have been in the foreground.
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp())
		t.setLent(false)
		signal.Reset(syscall.SIGTTOU)
	}()
	return run()
}

func (t *terminal) setLent(lent bool) {
	t.mu.Lock()
	t.lent = lent
	t.mu.Unlock()
	t.restore()
	t.readKeys()
}

// isForeground reports whether this program may use the terminal.
func (t *terminal) isForeground() bool {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// read waits for keys; nothing after a while without any. It never reads in the background, which would stop this program.
func (t *terminal) read() ([]byte, error) {
	var ready unix.FdSet
	ready.Set(t.fd)
	wait := unix.NsecToTimeval(lookAgain.Nanoseconds())
	n, err := unix.Select(t.fd+1, &ready, nil, nil, &wait)
	if err == nil && n > 0 && !t.isForeground() {
		time.Sleep(lookAgain)
		return nil, nil
	}
	if n < 1 || err != nil {
		return nil, ignoreInterrupt(err)
	}
	sent := make([]byte, 64)
	n, err = unix.Read(t.fd, sent)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return sent[:max(n, 0)], ignoreInterrupt(err)
}

func ignoreInterrupt(err error) error {
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}
