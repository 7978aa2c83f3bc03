package cli_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/setpoint-dev/setpoint/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/dev"
)

// The scripts call "setpoint", the light binary, and "setpoint-full", which has
// a control plane that cannot start and a kubectl that repeats its arguments.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"setpoint":      func() { os.Exit(cli.Main(cli.Extras{})) },
		"setpoint-full": func() { os.Exit(cli.Main(cli.Extras{Boot: refuse, Kubectl: repeat})) },
	})
}

func refuse(_ context.Context, o dev.BootOptions) (dev.Cluster, error) {
	done := o.Progress("certificates")
	err := fmt.Errorf("%s is in use by process 7", o.DataDir)
	done(err)
	return nil, err
}

func repeat(args []string) int {
	fmt.Printf("kubectl %q\n", args)
	return 4
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true})
}
