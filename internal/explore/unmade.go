package explore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// UnmadeEdit is an edit of users that was tried, and never made.
type UnmadeEdit struct {
	Name   string     `json:"name"`
	Object object.Ref `json:"object"`
	// Reason is why: the error of the API server, or that it changes nothing.
	Reason string `json:"reason"`
	// Failed is set if the exploration fails because of it.
	Failed bool `json:"failed"`
}

func (u UnmadeEdit) String() string {
	return fmt.Sprintf("The edit %q of %s was never made: %s", u.Name, u.Object, u.Reason)
}

// unmade returns the edits that were tried in vain. Those that come from a schema are guesses: they have a note, and only
// if the API server refuses them.
func (s *search) unmade() (written []UnmadeEdit, note string) {
	var guesses []string
	for i, one := range s.attempts.all {
		e := &s.options.Edits[i]
		switch refused := one.err != nil && !errors.Is(one.err, errUnchanged); {
		case one.made || one.err == nil:
		case e.Generated && refused:
			guesses = append(guesses, fmt.Sprintf("%s (%v)", e.Name, one.err))
		case e.Generated:
		default:
			written = append(written, UnmadeEdit{e.Name, e.Object, s.reasonOf(one.err), refused && s.isFailure(one.err)})
		}
	}
	if len(guesses) > 0 {
		note = "The API server refuses these generated edits: " + strings.Join(guesses, "; ") + "."
	}
	return written, note
}

// isFailure reports whether an exploration fails because the API server has refused an edit in all states. Its author
// wants to know what follows the edit, and without it the exploration holds too easily. If the search ended early, the edit
// may be possible in a later state, and a slow machine must not make a test fail. An unknown field is one in any state.
//
// An edit that changes nothing is no failure: one that takes back another needs a bound of two edits.
func (s *search) isFailure(err error) bool { return s.stopped == "" || unknownFields(err) != "" }

func (s *search) reasonOf(err error) string {
	switch {
	case errors.Is(err, errUnchanged):
		return "it changes nothing in what was explored, with at most " + count(s.options.Bounds.Edits, "edit")
	case unknownFields(err) != "":
		return unknownFields(err)
	case s.isFailure(err):
		return "the API server refuses it: " + err.Error()
	}
	return "the API server refused it in what was explored: " + err.Error()
}
