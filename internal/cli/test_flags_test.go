package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputsAreChecked reports files that cannot be written before anything runs.
func TestOutputsAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--junit", "--timeline"} {
		for value, want := range map[string]string{
			filepath.Join(dir, "none", "x"): "the folder " + filepath.Join(dir, "none") + " does not exist",
			filepath.Join(file, "x"):        file + " is no folder",
			dir:                             dir + " is a folder; give a file",
		} {
			var shown bytes.Buffer
			p := &program{stdout: &shown, stderr: &shown, stdin: strings.NewReader("")}
			if code := p.execute(t.Context(), []string{"test", dir, flag, value}); code != codeUsage || !strings.Contains(shown.String(), "error: "+flag+": ") || !strings.Contains(shown.String(), want) {
				t.Errorf("%s %s: exit code %d, %s", flag, value, code, shown.String())
			}
		}
	}
}

// TestUninterrupted keeps what Ctrl-C has not caused.
func TestUninterrupted(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	interrupted := fmt.Errorf("step 1: %w", &url.Error{Op: "Get", Err: context.Canceled})
	remaining := errors.New("remove the namespace: forbidden")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "<nil>"}, {interrupted, "<nil>"}, {remaining, remaining.Error()},
		{errors.Join(errors.Join(interrupted, interrupted), remaining), remaining.Error()},
	} {
		if got := fmt.Sprint(uninterrupted(ended, c.err)); got != c.want {
			t.Errorf("%v: %s", c.err, got)
		}
	}
	if uninterrupted(t.Context(), interrupted) == nil {
		t.Error("an error is lost")
	}
}
