package flags

import (
	"fmt"
	"slices"
	"strings"
)

// Choice is a flag value from a fixed list. The first entry is the default.
type Choice struct {
	Value   string
	Allowed []string
	// Given is the value as the user wrote it, such as an alias; empty for the default.
	Given string
	// aliases maps hidden values to allowed ones.
	aliases map[string]string
	// bare allows the flag without a value, for true.
	bare bool
}

// OneOf returns a Choice.
func OneOf(allowed ...string) *Choice { return &Choice{Value: allowed[0], Allowed: allowed} }

// WithAliases accepts further values, which help does not list.
func (c *Choice) WithAliases(aliases map[string]string) *Choice {
	c.aliases = aliases
	return c
}

// String returns the value. String, Set and Type implement flag.Value and pflag.Value.
func (c *Choice) String() string { return c.Value }

// Type returns the value's name in help texts.
func (c *Choice) Type() string { return strings.Join(c.Allowed, "|") }

// Set rejects values that are not in the list.
func (c *Choice) Set(value string) error {
	given := value
	if word, known := c.aliases[value]; known {
		value = word
	}
	if !slices.Contains(c.Allowed, value) {
		return fmt.Errorf("must be one of %s", strings.Join(c.Allowed, ", "))
	}
	c.Value, c.Given = value, given
	return nil
}

// IsBoolFlag reports whether the flag may be set without a value.
func (c *Choice) IsBoolFlag() bool { return c.bare }
