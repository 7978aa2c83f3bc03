package dev

import (
	"strings"
	"testing"
)

func TestPressed(t *testing.T) {
	for sent, want := range map[string]string{"q": "q", "rl": "rl", "\r\n \x04": "", "\x1b[A": "", "r\x1bOq": "r", "é?": "?", "": ""} {
		if got := string(pressed([]byte(sent))); got != want {
			t.Errorf("%q has the keys %q, want %q", sent, got, want)
		}
	}
}

// What is shown fits a terminal of 60 columns, and no key has two meanings.
func TestKeysAreShown(t *testing.T) {
	if got, want := keysLine(), "o dashboard  r reconcile  l logs  k shell  ? help  q quit"; got != want {
		t.Errorf("got %q", got)
	}
	names := map[byte]bool{}
	for _, k := range keys {
		names[k.name] = true
		if !strings.Contains(keysHelp(), "  "+string(k.name)+"  "+k.what) {
			t.Errorf("the help lacks %c", k.name)
		}
	}
	if len(names) != len(keys) {
		t.Error("one key has two meanings")
	}
	for line := range strings.Lines(keysLine() + "\n" + keysHelp()) {
		if len(strings.TrimRight(line, "\n")) > 60 {
			t.Errorf("%q is too long", line)
		}
	}
}
