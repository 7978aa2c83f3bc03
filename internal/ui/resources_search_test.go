package ui

import "testing"

// A list that has been looked through to its end is all there is, however long it is.
func TestOnlyAListThatGoesOnIsCutShort(t *testing.T) {
	for _, test := range []struct {
		seen            int
		all, full, note bool
	}{
		{searchAhead, false, false, false},
		{searchAhead, true, true, false},
		{searchRows, false, true, true},
		{searchRows, true, true, false},
	} {
		p := &kindPage{}
		if full := p.full(test.seen, test.all); full != test.full || (p.Note != "") != test.note {
			t.Errorf("%+v: %t, %q", test, full, p.Note)
		}
	}
}
