package cli_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/dev"
)

// The scripts call "setpoint", the light binary, and "setpoint-full", which has
// a control plane that cannot start and a kubectl that repeats its arguments.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"setpoint": func() { os.Exit(cli.Main(cli.Extras{})) },
		"setpoint-full": func() {
			// As the packages of Kubernetes' components do it.
			pflag.Var(&release{}, "version", "print version information and quit")
			os.Exit(cli.Main(cli.Extras{Boot: failBoot, Kubectl: repeat}))
		},
	})
}

// release is the value of a --version that is no bool.
type release struct{ raw string }

func (r *release) String() string     { return r.raw }
func (r *release) Set(s string) error { r.raw = s; return nil }
func (r *release) Type() string       { return "version" }

func failBoot(_ context.Context, o dev.BootOptions) (dev.Cluster, error) {
	done := o.Progress("certificates")
	err := fmt.Errorf("%s is in use by process 7", o.DataDir)
	done(err)
	return nil, err
}

func repeat(args []string) int {
	fmt.Printf("kubectl %q, with its --version %t\n", args, pflag.Lookup("version") != nil)
	return 4
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true})
}
