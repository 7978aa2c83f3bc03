package dashboard

import "testing"

// A list that was searched completely has no note.
func TestSearchLimitNote(t *testing.T) {
	for _, test := range []struct {
		seen            int
		all, full, note bool
	}{
		{searchPageSize, false, false, false},
		{searchPageSize, true, true, false},
		{maxSearchedRows, false, true, true},
		{maxSearchedRows, true, true, false},
	} {
		p := &kindPage{}
		if full := p.isFull(test.seen, test.all); full != test.full || (p.Note != "") != test.note {
			t.Errorf("%+v: %t, %q", test, full, p.Note)
		}
	}
}
