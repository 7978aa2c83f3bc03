package setpoint

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// appWithFlags is an app with conflict with those of the app.
func appWithFlags() (*App, *time.Duration) {
	app := New("rates")
	return app, app.Flags().Duration("every", time.Hour, "how often")
}

func TestFlagsOfTheProgramsOwn(t *testing.T) {
	for _, args := range [][]string{{"--every=5s"}, {"--workers", "3", "--every", "5s"}, {"run", "--every=5s"}, {"rbac", "--every=5s"}} {
		app, every := appWithFlags()
		if _, err := app.parseCommand(args, nil); err != nil || *every != 5*time.Second {
			t.Errorf("%v: every %s, %v", args, *every, err)
		}
	}
	app, _ := appWithFlags()
	var help bytes.Buffer
	if _, err := app.parseCommand([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-every duration\n    \thow often (default 1h0m0s)") {
		t.Errorf("help: %v\n%s", err, &help)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"dance"}, exitUsage, `unknown command "dance"`},
		{[]string{"run", "fast"}, exitUsage, `unexpected argument "fast"`},
		{[]string{"--every=soon"}, exitUsage, `invalid value "soon"`},
		{[]string{"--unknown"}, exitUsage, "not defined: -unknown"},
		{[]string{"--log-level=loud"}, exitUsage, "must be one of info, debug, warn, error"},
		{[]string{"--leader-elect=maybe"}, exitUsage, "must be one of auto, true, false"},
		{[]string{"--workers=0"}, exitUsage, "--workers must be at least 1"},
		{[]string{"rbac"}, exitFailure, "the app has no controllers"},
	} {
		app, _ := appWithFlags()
		var stderr bytes.Buffer
		command, err := app.parseCommand(c.args, nil)
		if err == nil {
			err = command(context.Background(), nil, &stderr)
		}
		if code := exitCode(err, &stderr); code != c.want || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v: ends with %d: %s", c.args, code, &stderr)
		}
	}
	app, _ := appWithFlags()
	app.Flags().Int("workers", 1, "mine")
	if _, err := app.parseCommand(nil, nil); err == nil || !strings.Contains(err.Error(), "conflict with those of the app: --workers") {
		t.Errorf("a flag that is taken: %v", err)
	}
}

func TestStatusWithConditions(t *testing.T) {
	const crd = `
kind: CustomResourceDefinition
spec:
  group: example.com
  names: {kind: Rate, plural: rates}
  versions:
  - {name: v1, schema: {openAPIV3Schema: {properties: {status: {properties: {conditions: {type: array}}}}}}}
  - {name: v1beta1, schema: {openAPIV3Schema: {properties: {status: {type: object}}}}}
`
	app := New("rates")
	app.InstallCRDs([]byte(crd))
	known, err := app.kinds()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, k := range []kind{{"example.com/v1", "Rate"}, {"example.com/v1beta1", "Rate"}, {"example.com/v1", "Other"}, {"v1", "Pod"}} {
		got[k.String()] = known.statusHas(k, "conditions")
	}
	want := map[string]bool{"Rate of example.com/v1": true, "Rate of example.com/v1beta1": false, "Other of example.com/v1": false, "Pod of v1": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
