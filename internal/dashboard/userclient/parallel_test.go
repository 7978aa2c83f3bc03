package userclient

import "testing"

func TestFilterAllowed(t *testing.T) {
	type row struct{ Name, Process string }
	all := []row{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got := FilterAllowed(all, func(c *row) bool {
		c.Process = "changed"
		return c.Name != "b"
	})
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" || got[0].Process != "changed" || all[0].Process != "" {
		t.Errorf("allowed %+v of %+v", got, all)
	}
}
