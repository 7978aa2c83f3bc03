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

// flagged is an app with flags of its own.
func flagged() (*App, *time.Duration) {
	app := New("rates")
	return app, app.Flags().Duration("every", time.Hour, "how often")
}

func TestFlagsOfTheProgramsOwn(t *testing.T) {
	for _, args := range [][]string{{"--every=5s"}, {"--workers", "3", "--every", "5s"}, {"run", "--every=5s"}, {"rbac", "--every=5s"}} {
		app, every := flagged()
		if _, err := app.read(args, nil); err != nil || *every != 5*time.Second {
			t.Errorf("%v: every %s, %v", args, *every, err)
		}
	}
	app, _ := flagged()
	var help bytes.Buffer
	if _, err := app.read([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-every duration\n    \thow often (default 1h0m0s)") {
		t.Errorf("help: %v\n%s", err, &help)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"dance"}, codeUsage, `no command "dance"`},
		{[]string{"run", "fast"}, codeUsage, `"fast" is not understood`},
		{[]string{"--every=soon"}, codeUsage, `invalid value "soon"`},
		{[]string{"--unknown"}, codeUsage, "not defined: -unknown"},
		{[]string{"--log-level=loud"}, codeUsage, "--log-level must be"},
		{[]string{"--leader-elect=maybe"}, codeUsage, "must be auto, true or false"},
		{[]string{"--workers=0"}, codeUsage, "--workers must be at least 1"},
		{[]string{"rbac"}, codeFailure, "there is nothing to run"},
	} {
		app, _ := flagged()
		var stderr bytes.Buffer
		command, err := app.read(c.args, nil)
		if err == nil {
			err = command(context.Background(), nil, &stderr)
		}
		if code := exitCode(err, &stderr); code != c.want || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v: ends with %d: %s", c.args, code, &stderr)
		}
	}
	app, _ := flagged()
	app.Flags().Int("workers", 1, "mine")
	if _, err := app.read(nil, nil); err == nil || !strings.Contains(err.Error(), "flags of its own that every app has: --workers") {
		t.Errorf("a flag that is taken: %v", err)
	}
}

func TestStatusWithAPlaceForConditions(t *testing.T) {
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
	app.Define([]byte(crd))
	known, err := app.kinds()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, k := range []kind{{"example.com/v1", "Rate"}, {"example.com/v1beta1", "Rate"}, {"example.com/v1", "Other"}, {"v1", "Pod"}} {
		got[k.String()] = known.inStatus(k, "conditions")
	}
	want := map[string]bool{"Rate of example.com/v1": true, "Rate of example.com/v1beta1": false, "Other of example.com/v1": false, "Pod of v1": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
