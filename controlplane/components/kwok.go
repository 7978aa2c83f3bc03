package components

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// kwok plays the kubelets of the fake nodes. Its configuration, the stages a
// pod and a node go through, comes from a file named in the arguments.
func kwok([]string) int {
	flags := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}

	ctx, _ := log.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := config.InitFlags(ctx, flags) // reads os.Args
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok: read configuration:", err)
		return 1
	}
	// Kubernetes has put a --version of a kind that cobra does not expect
	// among the flags that every command takes over.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	command := cmd.NewCommand(ctx)
	flags.VisitAll(func(flag *pflag.Flag) {
		if command.Flags().Lookup(flag.Name) == nil {
			command.PersistentFlags().AddFlag(flag)
		}
	})
	command.SetArgs(os.Args[1:])
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	return 0
}
