package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/flags"
)

// NoCommand rejects arguments that are no command.
func NoCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if like := Likest(c, args[0]); like != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, like)
	}
	return UsageError(err)
}

// Likest returns the command whose name is most like a word; "" for none.
func Likest(c *cobra.Command, word string) string {
	like := c.SuggestionsFor(word)
	if len(like) == 0 {
		return ""
	}
	begin := func(name string) int { return commonPrefix(name, word) } // Few mistype the first letters.
	return slices.MaxFunc(like, func(a, b string) int { return begin(a) - begin(b) })
}

// commonPrefix returns how many bytes two texts begin with in common.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// NoArguments rejects arguments.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return UsageErrorf("unexpected argument %q", args[0])
}

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
