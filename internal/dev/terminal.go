package dev

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lookAgain is how often a terminal that sends nothing is looked at: the session may have ended, or come to the foreground.
const lookAgain = 250 * time.Millisecond

// terminal is one whose keys are read one by one, without Enter. Output and the keys for signals stay as they are.
type terminal struct {
	file    *os.File
	signals chan os.Signal
	// held counts the reasons for which keys are not read: a shell runs in the terminal, and the session has ended.
	held    atomic.Int32
	closing sync.Once

	mu sync.Mutex
	// before are the settings to return to.
	before unix.Termios
}

// openTerminal starts to read keys; nil if they go to another program.
func openTerminal(file *os.File) *terminal {
	t := &terminal{file: file, signals: make(chan os.Signal, 4)}
	before, err := unix.IoctlGetTermios(t.fd(), getTermios)
	if err != nil || !t.isForeground() {
		return nil
	}
	t.before = *before
	signal.Notify(t.signals, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGQUIT)
	t.set(true) // A signal from now on gives it back.
	go t.handleSignals()
	return t
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

// handleSignals gives the terminal back before this program stops or ends.
func (t *terminal) handleSignals() {
	for caught := range t.signals {
		t.set(caught == syscall.SIGCONT)
		switch caught {
		case syscall.SIGTSTP:
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		case syscall.SIGQUIT:
			signal.Reset(syscall.SIGQUIT)
			_ = unix.Kill(os.Getpid(), unix.SIGQUIT) // For the dump of goroutines.
		}
	}
}

// set turns off lines and echo to read keys, unless it is held, or returns to the settings before. In the
// background they are those of another program.
func (t *terminal) set(raw bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	settings := t.before
	if raw && t.held.Load() == 0 {
		settings.Lflag &^= unix.ICANON | unix.ECHO
		settings.Cc[unix.VMIN], settings.Cc[unix.VTIME] = 1, 0
	}
	if t.isForeground() {
		_ = unix.IoctlSetTermios(t.fd(), setTermios, &settings)
	}
}

// close gives the terminal back for good.
func (t *terminal) close() {
	t.closing.Do(func() {
		t.held.Add(1)
		t.set(false)
		signal.Stop(t.signals)
		close(t.signals)
	})
}

// lend runs a program that uses the terminal, and takes the terminal back even if the program was killed.
func (t *terminal) lend(run func() error) error {
	t.held.Add(1)
	t.set(false)
	err := run()
	signal.Ignore(syscall.SIGTTOU) // The program may have been in the foreground.
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, unix.Getpgrp())
	t.held.Add(-1)
	t.set(true)
	signal.Reset(syscall.SIGTTOU)
	return err
}

// isForeground reports whether this program may use the terminal.
func (t *terminal) isForeground() bool {
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// read waits for keys; nothing after a while without any. It never reads in the background, which would stop this program.
func (t *terminal) read() ([]byte, error) {
	var ready unix.FdSet
	if t.isForeground() {
		ready.Set(t.fd())
	}
	wait := unix.NsecToTimeval(lookAgain.Nanoseconds())
	n, err := unix.Select(t.fd()+1, &ready, nil, nil, &wait)
	switch {
	case n == 0 || errors.Is(err, unix.EINTR):
		return nil, nil
	case err != nil:
		return nil, err
	case !t.isForeground(): // It went to the background meanwhile.
		return nil, nil
	}
	sent := make([]byte, 64)
	n, err = t.file.Read(sent)
	return sent[:n], err
}
