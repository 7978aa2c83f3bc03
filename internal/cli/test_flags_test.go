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

	"github.com/setpoint-dev/setpoint/internal/explore"
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

// TestFlagsWithoutEffect are wrong usage.
func TestFlagsWithoutEffect(t *testing.T) {
	for args, want := range map[string]string{
		"--replay calls --only cases":             "--replay requires --only replay, or no --only",
		"--replay calls --only explore,cases":     "--replay requires --only replay, or no --only",
		"--update --only explore":                 "--update is for cases; add cases to --only, or omit --update",
		"--update --replay calls":                 "--update is for cases, and --replay runs none",
		"--run x --replay calls":                  "--run chooses by names, which recordings do not have",
		"--update --replay calls --only replay":   "--update is for cases; add cases to --only",
		"--on-cluster --update --only cases":      "--on-cluster replays stories; omit --only",
		"--kubeconfig x --update --only explore":  "--kubeconfig requires --on-cluster",
		"--timeline none/x --update --only cases": "--timeline: the folder none does not exist",
	} {
		var shown bytes.Buffer
		p := &program{stdout: &shown, stderr: &shown, stdin: strings.NewReader("")}
		if code := p.execute(t.Context(), append([]string{"test", t.TempDir()}, strings.Fields(args)...)); code != codeUsage || !strings.Contains(shown.String(), "error: "+want) {
			t.Errorf("%s: exit code %d, %s", args, code, shown.String())
		}
	}
}

// TestTheClusterTookNoPart says so for stories that are not violated any more.
func TestTheClusterTookNoPart(t *testing.T) {
	for want, made := range map[string]explore.ClusterReplay{
		"Nothing was done on the cluster: the property is not violated in memory any more.": {},
		"Nothing was done on the cluster: not all steps can be made in memory.":             {Replayed: explore.Replayed{Stopped: "step 2 cannot happen any more"}},
		"The cluster did the same in all 3 steps.":                                          {Replayed: explore.Replayed{Violated: true}, Made: 3},
	} {
		if got := describeReplay(&made); got != want {
			t.Errorf("%s, want %s", got, want)
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
