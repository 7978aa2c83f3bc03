package store

import (
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// at makes an object of a name that existed at a version.
func at(t *testing.T, name string, version uint64) *object.Object {
	t.Helper()
	o := named(name)
	o.version = version
	return o.parse(t)
}

func TestReplace(t *testing.T) {
	me := &View{}
	tests := map[string]struct {
		before  func(*cache)
		list    []*object.Object
		version uint64
		want    []string // what others are told
		holds   []string
	}{
		"the first list": {
			list: []*object.Object{at(t, "b", 2), at(t, "a", 1)}, version: 5,
			want: []string{"+a", "+b"}, holds: []string{"a1", "b2"},
		},
		"what is missing is dropped": {
			before: func(c *cache) { c.observed(at(t, "a", 1)); c.observed(at(t, "b", 2)) },
			list:   []*object.Object{at(t, "b", 2)}, version: 5,
			want: []string{"-a"}, holds: []string{"b2"},
		},
		"our own newer write stays": {
			before: func(c *cache) { c.wrote(at(t, "a", 9), me, true) },
			list:   []*object.Object{at(t, "b", 2)}, version: 5,
			want: []string{"+b"}, holds: []string{"a9", "b2"},
		},
		"our own newer write is not overwritten": {
			before: func(c *cache) { c.observed(at(t, "a", 1)); c.wrote(at(t, "a", 9), me, true) },
			list:   []*object.Object{at(t, "a", 3)}, version: 5,
			holds: []string{"a9"},
		},
		"our own write that the list could know and lacks was deleted": {
			before: func(c *cache) { c.wrote(at(t, "a", 4), me, true) },
			list:   []*object.Object{}, version: 5,
			want: []string{"-a"},
		},
		"what we removed is not listed back": {
			before: func(c *cache) { c.observed(at(t, "a", 1)); c.removed(at(t, "a", 1), me) },
			list:   []*object.Object{at(t, "a", 1)}, version: 5,
		},
		"a history that went back counts": {
			before: func(c *cache) {
				c.observed(at(t, "a", 70))
				c.observed(at(t, "b", 80))
				c.wrote(at(t, "a", 90), me, true)
			},
			list: []*object.Object{at(t, "a", 3), at(t, "c", 4)}, version: 5,
			want: []string{"~a", "+c", "-b"}, holds: []string{"a3", "c4"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache()
			if test.before != nil {
				test.before(&c)
			}
			var told []string
			for _, n := range c.replace(test.list, test.version) {
				if n.only == nil {
					told = append(told, say(n.Event))
				}
			}
			if !slices.Equal(told, test.want) {
				t.Errorf("told %v, want %v", told, test.want)
			}
			var holds []string
			for _, o := range c.all() {
				holds = append(holds, o.Name()+o.ResourceVersion())
			}
			slices.Sort(holds)
			if !slices.Equal(holds, test.holds) {
				t.Errorf("holds %v, want %v", holds, test.holds)
			}
		})
	}
}

// After a history that went back, its new versions count again.
func TestLifeAfterRestart(t *testing.T) {
	c := newCache()
	c.observed(at(t, "a", 70))
	c.replace([]*object.Object{at(t, "a", 3)}, 5)
	if notices := c.observed(at(t, "a", 6)); len(notices) != 1 || c.all()[0].Version() != 6 {
		t.Fatalf("told %v, holds %v", notices, show(c.all()[0]))
	}
	if notices := c.wrote(at(t, "a", 7), &View{}, true); len(notices) != 1 {
		t.Fatalf("told %v", notices)
	}
}
