package form

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// The bounds of what may be entered. Beyond them an object is for the YAML editor.
const (
	MaxEntries = 10_000
	MaxBytes   = 4 << 20 // The API server takes objects of 3 MiB at the most.
	MaxRow     = 99_999
	MaxRows    = 500
	MaxFields  = 20_000
	maxSteps   = 40
)

var (
	// ErrFormTooLarge is wrapped by what is said of more than fits a form.
	ErrFormTooLarge = errors.New("too large for a form; enter it as YAML")
	// ErrInputTooLarge is wrapped by what is said of more than is read here at all.
	ErrInputTooLarge = errors.New("too large for the dashboard; use kubectl")
)

// inputNode is what was entered at a name, and below it.
type inputNode struct {
	texts      []string
	marks      map[string]string
	properties map[string]*inputNode
	rows       map[int]*inputNode
}

// parseInput makes a tree of what was entered. Names that begin otherwise than with a
// dot or a bracket are not the form's.
func parseInput(values url.Values) (*inputNode, error) {
	root, size := &inputNode{}, 0
	if len(values) > MaxEntries {
		return nil, fmt.Errorf("%d entries, of at most %d: %w", len(values), MaxEntries, ErrFormTooLarge)
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
			return nil, fmt.Errorf("the entry %q: %w", truncate(name, 100), err)
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
		return fmt.Errorf("it was entered %d times", len(texts))
	}
	at := e
	for _, s := range steps {
		if at, err = at.childAt(s); err != nil {
			return err
		}
	}
	switch {
	case mark == "":
		at.texts = texts
	case slices.Contains([]string{rowMark, keyMark, setMark, nullMark}, mark):
		at.addMark(mark, texts[len(texts)-1])
	default:
		return fmt.Errorf("there is no mark %q", truncate(mark, 20))
	}
	return nil
}

// isCheckbox knows a checkbox by its companion, which says false whatever it says
// itself.
func isCheckbox(texts []string) bool { return slices.Equal(texts, []string{"false", "true"}) }

func (e *inputNode) addMark(mark, text string) {
	if e.marks == nil {
		e.marks = map[string]string{}
	}
	e.marks[mark] = text
}

func (e *inputNode) childAt(s step) (*inputNode, error) {
	if !s.isRow {
		if e.properties == nil {
			e.properties = map[string]*inputNode{}
		}
		if e.properties[s.property] == nil {
			e.properties[s.property] = &inputNode{}
		}
		return e.properties[s.property], nil
	}
	if e.rows == nil {
		e.rows = map[int]*inputNode{}
	}
	if e.rows[s.row] == nil {
		if len(e.rows) >= MaxRows {
			return nil, fmt.Errorf("more than %d rows: %w", MaxRows, ErrFormTooLarge)
		}
		e.rows[s.row] = &inputNode{}
	}
	return e.rows[s.row], nil
}

// The methods below are for entries that may be missing.

func (e *inputNode) text() string {
	if e == nil || len(e.texts) == 0 {
		return ""
	}
	return e.texts[len(e.texts)-1]
}

// hasText says that something was entered at this very name, be it nothing.
func (e *inputNode) hasText() bool { return e != nil && len(e.texts) > 0 }

func (e *inputNode) markText(mark string) (text string, is bool) {
	if e == nil {
		return "", false
	}
	text, is = e.marks[mark]
	return text, is
}

func (e *inputNode) child(property string) *inputNode {
	if e == nil {
		return nil
	}
	return e.properties[property]
}

func (e *inputNode) rowNumbers() []int {
	if e == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(e.rows))
}

// isEmpty says that nothing at all was entered.
func (e *inputNode) isEmpty() bool {
	return e == nil || len(e.texts) == 0 && len(e.marks) == 0 && len(e.properties) == 0 && len(e.rows) == 0
}

func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
