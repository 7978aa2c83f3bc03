package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/flags"
)

// AddChoice adds a choice to a command, with completion.
func AddChoice(command *cobra.Command, c *flags.Choice, name, short, usage string) {
	command.Flags().VarP(c, name, short, usage)
	CompleteWords(command, name, c.Allowed)
}

// CompleteWords completes a flag whose values are words.
func CompleteWords(c *cobra.Command, flag string, words []string) {
	complete := func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return WithPrefix(word, words), cobra.ShellCompDirectiveNoFileComp
	}
	_ = c.RegisterFlagCompletionFunc(flag, complete) // It fails only for an undefined flag.
}

// WithPrefix returns the words that start with prefix.
func WithPrefix(so string, words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, so) })
}

// CheckSelector validates --selector.
func CheckSelector(selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return nil
}
