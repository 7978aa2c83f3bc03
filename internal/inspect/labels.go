package inspect

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// LabelSelector selects objects by their labels, as `kubectl --selector` does. The zero value
// selects all. It is a flag value, and text in JSON.
type LabelSelector struct{ selector labels.Selector }

// String returns the selector as text.
func (s *LabelSelector) String() string {
	if s.selector == nil {
		return ""
	}
	return s.selector.String()
}

// Set parses a selector. String, Set and Type implement pflag.Value.
func (s *LabelSelector) Set(text string) (err error) {
	if s.selector, err = labels.Parse(text); err != nil {
		return fmt.Errorf("label selector: %w", err)
	}
	return nil
}

// Type returns the value's name in help texts.
func (*LabelSelector) Type() string { return "selector" }

// MarshalText implements encoding.TextMarshaler.
func (s LabelSelector) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *LabelSelector) UnmarshalText(text []byte) error { return s.Set(string(text)) }

// IsZero reports whether all objects are selected.
func (s LabelSelector) IsZero() bool { return s.selector == nil || s.selector.Empty() }

func (s LabelSelector) matches(of object.Labels) bool { return s.IsZero() || s.selector.Matches(of) }
