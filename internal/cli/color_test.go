package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Fault U12: states and errors have colours where they are wanted, and columns stay where
// they are without.
func TestTablesInColor(t *testing.T) {
	rows := []row{
		{key: "a", cells: []string{"True", "True", "1", ""}},
		{key: "b", cells: []string{"long-name", "False (HookFailing)", "12", "b: no\x1b[31m"}},
		{key: "c", cells: []string{"└─ and 1 more"}},
	}
	head := []string{"NAME", "READY", "OBJECTS", "LAST ERROR"}
	var with, without, bare bytes.Buffer
	for out, t1 := range map[*bytes.Buffer]*table{&with: {headers: head, color: true}, &without: {headers: head}, &bare: {headers: head, noHeaders: true}} {
		if err := t1.write(out, rows); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"True        \x1b[32mTrue\x1b[0m ", "\x1b[31mFalse (HookFailing)\x1b[0m   12 ", "\x1b[31mb: no\\u001b[31m\x1b[0m\n"} {
		if !strings.Contains(with.String(), want) {
			t.Errorf("%q lacks %q", with.String(), want)
		}
	}
	removed := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(with.String())
	if removed != without.String() || strings.Contains(without.String(), "\x1b") {
		t.Errorf("in colour:\n%s\nwithout:\n%s", removed, without.String())
	}
	if headings, _, _ := strings.Cut(with.String(), "\n"); strings.Contains(headings, "\x1b") {
		t.Errorf("headings in colour: %q", headings)
	}
	if strings.Contains(bare.String(), "NAME") || !strings.Contains(bare.String(), "long-name") {
		t.Errorf("without headings: %s", bare.String())
	}
}

// Fault U12: what failed is red in a history.
func TestHistoryInColor(t *testing.T) {
	var out bytes.Buffer
	printer{out: &out, color: true, now: noon}.printState(visibleState{ObjectState: inspect.ObjectState{Ref: team(), State: inspect.StateFailing, Error: "no\x1b[0m"}})
	if got := out.String(); !strings.HasPrefix(got, "\x1b[31mTeam shop/red is failing.\x1b[0m\n  \x1b[31mno\\u001b[0m\x1b[0m\n") {
		t.Errorf("%q", got)
	}
}
