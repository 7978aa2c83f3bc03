package cache

import (
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// objectAt returns an object at a version.
func objectAt(t *testing.T, name string, version uint64) *object.Object {
	t.Helper()
	o := namedObject(name)
	o.version = version
	return o.parse(t)
}

func TestReplace(t *testing.T) {
	me := &View{}
	tests := map[string]struct {
		before  func(*watchCache)
		list    []*object.Object
		version uint64
		want    []string // the events of other views
		holds   []string
	}{
		"the first list": {
			list: []*object.Object{objectAt(t, "b", 2), objectAt(t, "a", 1)}, version: 5,
			want: []string{"+a", "+b"}, holds: []string{"a1", "b2"},
		},
		"what is missing is dropped": {
			before: func(c *watchCache) { c.serverUpdated(objectAt(t, "a", 1)); c.serverUpdated(objectAt(t, "b", 2)) },
			list:   []*object.Object{objectAt(t, "b", 2)}, version: 5,
			want: []string{"-a"}, holds: []string{"b2"},
		},
		"our own newer write stays": {
			before: func(c *watchCache) { c.writeReturned(objectAt(t, "a", 9), me, true) },
			list:   []*object.Object{objectAt(t, "b", 2)}, version: 5,
			want: []string{"+b"}, holds: []string{"a9", "b2"},
		},
		"our own newer write is not overwritten": {
			before: func(c *watchCache) {
				c.serverUpdated(objectAt(t, "a", 1))
				c.writeReturned(objectAt(t, "a", 9), me, true)
			},
			list: []*object.Object{objectAt(t, "a", 3)}, version: 5,
			holds: []string{"a9"},
		},
		"our own write that the list could know and lacks was deleted": {
			before: func(c *watchCache) { c.writeReturned(objectAt(t, "a", 4), me, true) },
			list:   []*object.Object{}, version: 5,
			want: []string{"-a"},
		},
		"an object that we deleted is not listed again": {
			before: func(c *watchCache) { c.serverUpdated(objectAt(t, "a", 1)); c.deleteReturned(objectAt(t, "a", 1), me) },
			list:   []*object.Object{objectAt(t, "a", 1)}, version: 5,
		},
		"a reset API server counts": {
			before: func(c *watchCache) {
				c.serverUpdated(objectAt(t, "a", 70))
				c.serverUpdated(objectAt(t, "b", 80))
				c.writeReturned(objectAt(t, "a", 90), me, true)
			},
			list: []*object.Object{objectAt(t, "a", 3), objectAt(t, "c", 4)}, version: 5,
			want: []string{"~a", "+c", "-b"}, holds: []string{"a3", "c4"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newWatchCache()
			if test.before != nil {
				test.before(&c)
			}
			var notified []string
			for _, n := range c.replace(test.list, test.version) {
				if n.only == nil {
					notified = append(notified, eventText(n.Event))
				}
			}
			if !slices.Equal(notified, test.want) {
				t.Errorf("notified %v, want %v", notified, test.want)
			}
			holds := lists.Map(c.all(), func(o *object.Object) string { return o.Name() + o.ResourceVersion() })
			slices.Sort(holds)
			if !slices.Equal(holds, test.holds) {
				t.Errorf("holds %v, want %v", holds, test.holds)
			}
		})
	}
}

// After a reset, new versions count again.
func TestEventsAfterReset(t *testing.T) {
	c := newWatchCache()
	c.serverUpdated(objectAt(t, "a", 70))
	c.replace([]*object.Object{objectAt(t, "a", 3)}, 5)
	if notifications := c.serverUpdated(objectAt(t, "a", 6)); len(notifications) != 1 || c.all()[0].Version() != 6 {
		t.Fatalf("notified %v, holds %v", notifications, describe(c.all()[0]))
	}
	if notifications := c.writeReturned(objectAt(t, "a", 7), &View{}, true); len(notifications) != 1 {
		t.Fatalf("got %v", notifications)
	}
}
