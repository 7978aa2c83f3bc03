package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is a flag value from a fixed list. The first entry is the default.
type choice struct {
	value   string
	allowed []string
	// aliases maps hidden values to allowed ones.
	aliases map[string]string
}

func oneOf(allowed ...string) *choice { return &choice{value: allowed[0], allowed: allowed} }

// withAliases accepts further values, which help does not list.
func (c *choice) withAliases(aliases map[string]string) *choice {
	c.aliases = aliases
	return c
}

// String, Set and Type implement pflag.Value.
func (c *choice) String() string { return c.value }

// Type returns the value's name in help texts.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// Set rejects values that are not in the list.
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
