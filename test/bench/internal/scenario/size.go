package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
)

// Size is a number of parents, each with a number of children.
type Size struct{ Parents, Children int }

// String writes a size as "2000x1".
func (s Size) String() string { return fmt.Sprintf("%dx%d", s.Parents, s.Children) }

// title is String for headings.
func (s Size) title() string { return fmt.Sprintf("%d parents × %d", s.Parents, s.Children) }

func (s Size) work() load.Work {
	return load.Work{Parents: s.Parents, Children: s.Children, Round: "one"}
}

// ParseSize reads what String writes.
func ParseSize(text string) (Size, error) {
	parents, children, _ := strings.Cut(text, "x")
	n, err := strconv.Atoi(parents)
	k, kerr := strconv.Atoi(children)
	if err != nil || kerr != nil || n < 1 || k < 1 {
		return Size{}, fmt.Errorf("size %q: want parents x children, such as 2000x1", text)
	}
	return Size{Parents: n, Children: k}, nil
}
