package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Namespaces is a flag value: names of namespaces with commas between, from one flag or several.
// None mean all.
type Namespaces []string

// String returns the names. String, Set and Type implement flag.Value and pflag.Value.
func (n *Namespaces) String() string { return strings.Join(*n, ",") }

// Type returns the value's name in help texts.
func (n *Namespaces) Type() string { return "namespaces" }

// Set rejects what cannot be the name of a namespace. A list without any is an error: a variable
// that is not set must not widen a limit to all namespaces.
func (n *Namespaces) Set(text string) error {
	names := *n
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" || slices.Contains(names, name) {
			continue
		}
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%q is no name of a namespace: %s", name, problems[0])
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return errors.New("names no namespace; omit the flag for all")
	}
	*n = names
	return nil
}
