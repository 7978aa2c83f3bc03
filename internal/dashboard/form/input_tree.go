package form

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// Limits of a form. Larger objects can be edited as YAML.
const (
	MaxEntries = 10_000
	MaxBytes   = 4 << 20 // The API server accepts objects of at most 3 MiB.
	MaxRow     = 99_999
	MaxRows    = 500
	MaxFields  = 20_000
	maxSteps   = 40
)

var (
	// ErrFormTooLarge is wrapped by errors about too large forms.
	ErrFormTooLarge = errors.New("too large for a form: use YAML")
	// ErrInputTooLarge is wrapped by errors about too large objects.
	ErrInputTooLarge = errors.New("too large for the dashboard: use kubectl")
)

// inputNode is the input at a name, and below it.
type inputNode struct {
	texts []string
	parts map[step]*inputNode
	// rows are the numbers of the rows among parts.
	rows []int
}

// parseInput builds the tree of an input. Names without a leading dot or bracket are ignored.
func parseInput(values url.Values) (*inputNode, error) {
	root, size := &inputNode{}, 0
	if len(values) > MaxEntries {
		return nil, fmt.Errorf("%d entries, at most %d are allowed: %w", len(values), MaxEntries, ErrFormTooLarge)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == "" || name[0] != '.' && name[0] != '[' {
			continue
		}
		for _, text := range values[name] {
			size += len(text) + len(name)
		}
		if size > MaxBytes {
			return nil, fmt.Errorf("more than %d bytes: %w", MaxBytes, ErrFormTooLarge)
		}
		if err := root.insert(name, values[name]); err != nil {
			return nil, fmt.Errorf("entry %q: %w", truncate(name, 100), err)
		}
	}
	return root, nil
}

func (e *inputNode) insert(name string, texts []string) error {
	steps, mark, err := split(name)
	switch {
	case err != nil:
		return err
	case len(steps) > maxSteps:
		return fmt.Errorf("deeper than %d levels: %w", maxSteps, ErrFormTooLarge)
	case len(texts) > 1 && !isCheckbox(texts):
		return fmt.Errorf("entered %d times", len(texts))
	case mark != "" && !slices.Contains([]string{rowMark, keyMark, setMark, nullMark}, mark):
		return fmt.Errorf("unknown mark %q", truncate(mark, 20))
	case mark != "":
		steps = append(steps, step{mark: mark})
	}
	at := e
	for _, s := range steps {
		if at, err = at.childAt(s); err != nil {
			return err
		}
	}
	at.texts = texts
	return nil
}

// isCheckbox reports whether the texts come from a checkbox and its hidden companion.
func isCheckbox(texts []string) bool { return slices.Equal(texts, []string{"false", "true"}) }

func (e *inputNode) childAt(s step) (*inputNode, error) {
	if below := e.parts[s]; below != nil {
		return below, nil
	}
	if s.isRow {
		if len(e.rows) >= MaxRows {
			return nil, fmt.Errorf("more than %d rows: %w", MaxRows, ErrFormTooLarge)
		}
		e.rows = append(e.rows, s.row)
	}
	if e.parts == nil {
		e.parts = map[step]*inputNode{}
	}
	below := &inputNode{}
	e.parts[s] = below
	return below, nil
}

// The methods below accept nil.

func (e *inputNode) text() string {
	if e == nil || len(e.texts) == 0 {
		return ""
	}
	return e.texts[len(e.texts)-1]
}

// hasText reports whether there is input at this name, possibly empty.
func (e *inputNode) hasText() bool { return e != nil && len(e.texts) > 0 }

// hasMark reports whether there is a mark at this name.
func (e *inputNode) hasMark(mark string) bool { return e.child(step{mark: mark}) != nil }

func (e *inputNode) child(s step) *inputNode {
	if e == nil {
		return nil
	}
	return e.parts[s]
}

func (e *inputNode) rowNumbers() []int {
	if e == nil {
		return nil
	}
	return slices.Sorted(slices.Values(e.rows))
}

func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
