package run

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
)

func TestParse(t *testing.T) {
	o := must.Get(parse([]string{"-smoke", "-samples", "70", "-scenarios", "churn,steady", "-contenders", "writes"})).In(t)
	if o.Samples != 70 || o.Unrelated != 200 {
		t.Errorf("a size that is given, and one that is not: %d and %d", o.Samples, o.Unrelated)
	}
	if len(o.Scenarios) != 2 || len(o.contenders) != 1 {
		t.Errorf("scenarios %v, contenders %v", o.Scenarios, o.contenders)
	}
}

// The path of a Metacontroller makes it a contender, unless others are named.
func TestMetacontroller(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"-metacontroller", "m"}, true},
		{[]string{"-metacontroller", "m", "-contenders", "setpoint"}, false},
	} {
		o, err := parse(c.args)
		if got := slices.Contains(o.contenders, contender.Metacontroller); err != nil || got != c.want {
			t.Errorf("%v: %v, %v", c.args, o.contenders, err)
		}
	}
	o := must.Get(parse([]string{"-kubeconfig", "k", "-contenders", "metacontroller"})).In(t)
	if err := o.findBinaries(); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "-metacontroller") {
		t.Errorf("without its path: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown flag":      {"-nonsense"},
		"argument":          {"nonsense"},
		"unknown scenario":  {"-scenarios", "churn,nonsense"},
		"unknown contender": {"-contenders", "nonsense"},
		"unknown format":    {"-o", "xml"},
		"no parents":        {"-sizes", "0x1"},
		"half a size":       {"-sizes", "200"},
		"part of a second":  {"-resync", "1500ms"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(args); !errors.Is(err, ErrUsage) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := parse([]string{"-help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("asked for help: %v", err)
	}
}

func TestMissingBinaries(t *testing.T) {
	o := must.Get(parse([]string{"-setpoint", "/nonexistent/setpoint", "-contenders", "setpoint"})).In(t)
	if err := o.findBinaries(); !errors.Is(err, ErrUsage) {
		t.Errorf("no control plane: %v", err)
	}
	o.kubeconfig = "k"
	if err := o.findBinaries(); !errors.Is(err, ErrUsage) {
		t.Errorf("nothing to measure: %v", err)
	}
	o.contenders, o.inprocess = []string{"go-handler"}, ""
	if err := o.findBinaries(); !errors.Is(err, ErrUsage) {
		t.Errorf("no program in Go: %v", err)
	}
	o.contenders = []string{"handwritten"}
	if err := o.findBinaries(); err != nil {
		t.Errorf("nothing is needed: %v", err)
	}
}
