package failure_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

func TestReason(t *testing.T) {
	plain := errors.New("no")
	inner := failure.WithReason("Inner", plain)
	for want, err := range map[string]error{
		"Otherwise": plain,
		"Inner":     fmt.Errorf("sync hook: %w", inner),
		"Outer":     failure.WithReason("Outer", fmt.Errorf("gave up: %w", inner)),
	} {
		if got := failure.Reason(err, "Otherwise"); got != want || !errors.Is(err, plain) {
			t.Errorf("the reason of %v is %s, want %s", err, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := failure.OneLine(errors.Join(errors.New("one"), errors.New("two"))); got != "one; two" {
		t.Errorf("got %q", got)
	}
	long := failure.OneLine(errors.New("a\nb " + strings.Repeat("ä", 40_000)))
	if len(long) > 1100 || !utf8.ValidString(long) || !strings.HasPrefix(long, "a; b ä") {
		t.Errorf("%d bytes: %.40s", len(long), long)
	}
}
