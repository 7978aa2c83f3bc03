package operator

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindInterpreter(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		return path
	}
	recent := script("env/bin/python3", "echo Python 3.9.0")
	old := script("old", "echo Python 3.8.19")
	two := script("two", "echo Python 2.7.18")
	four := script("four", "echo Python 4.0.0")
	other := script("other", "echo Ruby")
	failing := script("failing", "echo no interpreter here >&2; exit 7")
	t.Setenv("PATH", filepath.Join(dir, "env", "bin"))
	for _, c := range []struct{ flag, virtualEnv, want, err string }{
		{want: recent},
		{virtualEnv: filepath.Join(dir, "env"), want: recent},
		{flag: four, virtualEnv: "/no/where", want: four},
		{flag: "python3", want: recent},
		{flag: old, err: old + " is Python 3.8.19, and operators need Python 3.9 or newer: use --python-interpreter PATH"},
		{flag: two, err: two + " is Python 2.7.18, and"},
		{flag: other, err: other + " is no Python interpreter"},
		{flag: failing, err: failing + " is no Python interpreter (exit status 7): it printed \"no interpreter here\""},
		{flag: "/no/python", err: "find Python 3.9 or newer: exec: \"/no/python\": stat /no/python: no such file or directory"},
		{virtualEnv: "/no/env", err: "/no/env/bin/python3: no such file"},
	} {
		got, _, err := FindInterpreter(t.Context(), c.flag, c.virtualEnv)
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	t.Setenv("PATH", dir)
	if _, _, err := FindInterpreter(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "install it, or use --python-interpreter PATH") {
		t.Error(err)
	}
}
