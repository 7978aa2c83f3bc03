package dev

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// key is a key of the keyboard and what it does.
type key struct {
	name byte
	// word is for the line of all keys, what for the help.
	word, what string
	do         func(context.Context)
	// early reports that the key also works before the session is ready.
	early bool
}

// keys returns the keys in the order in which they are shown.
func (s *session) keys() []key {
	return []key{
		{'o', "dashboard", "open the dashboard in the browser", s.openPage, false},
		{'r', "reconcile", "reconcile all objects of all controllers", s.reconcileAll, false},
		{'l', "logs", "hide or show the output of hooks", s.toggleLogs, false},
		{'k', "shell", "open a shell for this cluster", s.openShell, false},
		{'?', "help", "show the keys", func(context.Context) { s.Reporter.Line("%s", keysHelp(s.keys())) }, true},
		{'q', "quit", "stop everything, as Ctrl-C does", func(context.Context) { s.cancel(signalled{syscall.SIGINT}) }, true},
	}
}

// keysLine names the keys in one line.
func keysLine(keys []key) string {
	return strings.Join(lists.Map(keys, func(k key) string { return string(k.name) + " " + k.word }), "  ")
}

// keysHelp says what the keys do.
func keysHelp(keys []key) string {
	return strings.Join(lists.Map(keys, func(k key) string { return fmt.Sprintf("  %c  %s", k.name, k.what) }), "\n")
}

// pressed returns the keys in what a terminal sends. An escape sequence, such as of an arrow, has none, nor has the rest.
func pressed(sent []byte) []byte {
	sent, _, _ = bytes.Cut(sent, []byte{'\x1b'})
	return lists.Filter(sent, func(b byte) bool { return b > ' ' && b < '\x7f' })
}

// readKeys does what the keys say until the session ends or the terminal is gone.
func (s *session) readKeys(ctx context.Context) {
	defer s.terminal.close() // Also in a panic.
	for ctx.Err() == nil {
		sent, err := s.terminal.read()
		if err != nil {
			return
		}
		for _, name := range pressed(sent) {
			s.press(ctx, name)
		}
	}
}

// takeTerminal starts to read keys.
func (s *session) takeTerminal(ctx context.Context) {
	if s.Terminal == nil {
		return
	}
	if s.terminal = openTerminal(s.Terminal); s.terminal == nil {
		return
	}
	s.reconcileOut = s.Reporter.Writer("reconcile")
	abort := s.Abort
	s.Abort = func() {
		s.terminal.close()
		abort()
	}
	s.background.Go(func() { s.readKeys(ctx) })
}

// press does what a key says.
func (s *session) press(ctx context.Context, name byte) {
	keys := s.keys()
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	switch {
	case i < 0:
		s.Reporter.Line("no key %c; ? shows the keys", name)
	case !s.ready.Load() && !keys[i].early:
		s.Reporter.Line("not ready yet; q quits")
	default:
		keys[i].do(ctx)
	}
}
