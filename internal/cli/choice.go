package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is a flag with few values. The first one is the default.
type choice struct {
	value   string
	allowed []string
	// aliases are further words for what is allowed, not shown.
	aliases map[string]string
}

func oneOf(allowed ...string) *choice { return &choice{value: allowed[0], allowed: allowed} }

// withAliases accepts further words for what is allowed, which help does not show.
func (c *choice) withAliases(aliases map[string]string) *choice {
	c.aliases = aliases
	return c
}

// String, Set and Type make it a flag value.
func (c *choice) String() string { return c.value }

// Type is what help calls the value.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// Set refuses what is not allowed.
func (c *choice) Set(value string) error {
	if word, known := c.aliases[value]; known {
		value = word
	}
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = value
	return nil
}

// flag adds the choice to a command, with completion.
func (c *choice) flag(command *cobra.Command, name, short, usage string) {
	command.Flags().VarP(c, name, short, usage)
	complete := cobra.FixedCompletions(slices.Clone(c.allowed), cobra.ShellCompDirectiveNoFileComp)
	_ = command.RegisterFlagCompletionFunc(name, complete) // Fails for a flag that does not exist.
}
