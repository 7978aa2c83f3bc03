package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/flags"
)

// addChoice adds a choice to a command, with completion.
func addChoice(command *cobra.Command, c *flags.Choice, name, short, usage string) {
	command.Flags().VarP(c, name, short, usage)
	completeChoice(command, name, c)
}

func completeChoice(command *cobra.Command, name string, c *flags.Choice) {
	complete := func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return withPrefix(word, slices.Clone(c.Allowed)), cobra.ShellCompDirectiveNoFileComp
	}
	_ = command.RegisterFlagCompletionFunc(name, complete) // It fails only for an undefined flag.
}
