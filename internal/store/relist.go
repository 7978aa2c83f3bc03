package store

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// replace takes in everything there was at a version.
func (c *cache) replace(list []*object.Object, version uint64) []notice {
	slices.SortFunc(list, byName)
	if version < c.seen {
		return c.restart(list, version)
	}
	notices := c.settle(version)
	listed := make(map[key]string, len(list))
	for _, o := range list {
		listed[keyOf(o)] = o.UID()
		notices = append(notices, c.take(o)...)
	}
	// What the list could know and does not needs no remembering. What it still
	// lists is on its way out, and the word of that will come.
	maps.DeleteFunc(c.past, func(name key, p past) bool { return p.known <= version && listed[name] != p.uid })
	c.heard(version)
	return append(notices, c.dropUnlisted(listed)...)
}

// restart takes the list for all there is. A list older than what we have heard
// means that the API server's own history went back, as when its storage was
// restored, and that our versions mean nothing any more.
func (c *cache) restart(list []*object.Object, version uint64) []notice {
	before := c.objects
	*c = newCache()
	c.seen = version
	notices := make([]notice, 0, len(list))
	for _, o := range list {
		c.put(nil, o)
		notices = append(notices, notice{Event: Event{Old: before[keyOf(o)], New: o}})
		delete(before, keyOf(o))
	}
	for _, o := range before {
		notices = append(notices, notice{Event: Event{Old: o}})
	}
	return notices
}

// settle ends the waiting for writes that a list includes. Whether somebody
// else's change came between cannot be known from a list, so the writers are
// told.
func (c *cache) settle(version uint64) []notice {
	var notices []notice
	for _, own := range c.writes {
		if slices.Min(own.versions) <= version {
			notices = append(notices, notice{Event: Event{Old: own.base, New: own.latest}, only: own.by})
		}
	}
	return notices
}

// dropUnlisted drops what the list lacks, but for writes that are newer than it.
func (c *cache) dropUnlisted(listed map[key]string) []notice {
	var notices []notice
	for name, o := range c.objects {
		if _, found := listed[name]; !found && o.Version() <= c.seen {
			c.put(o, nil)
			notices = append(notices, notice{Event: Event{Old: o}})
		}
	}
	return notices
}
