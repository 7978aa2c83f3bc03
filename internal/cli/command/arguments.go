package command

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
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

func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return UsageErrorf("unexpected argument %q", args[0])
}
