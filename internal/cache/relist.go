package cache

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// replace takes in everything there was at a version.
func (c *watchCache) replace(list []*object.Object, version uint64) []notification {
	slices.SortFunc(list, byName)
	if version < c.latestVersion {
		return c.reset(list, version)
	}
	notifications := c.resolveWrites(version)
	listed := make(map[key]string, len(list))
	for _, o := range list {
		listed[keyOf(o)] = o.UID()
		notifications = append(notifications, c.store(o)...)
	}
	// What the list could know and does not needs no remembering. What it still
	// lists is on its way out, and the word of that will come.
	maps.DeleteFunc(c.tombstones, func(name key, p tombstone) bool { return p.version <= version && listed[name] != p.uid })
	c.advance(version)
	return append(notifications, c.dropUnlisted(listed)...)
}

// reset takes the list for all there is. A list older than what we have heard
// means that the API server's own history went back, as when its storage was
// restored, and that our versions mean nothing any more.
func (c *watchCache) reset(list []*object.Object, version uint64) []notification {
	before := c.objects
	*c = newWatchCache()
	c.latestVersion = version
	notifications := make([]notification, 0, len(list))
	for _, o := range list {
		c.put(nil, o)
		notifications = append(notifications, notification{Event: Event{Old: before[keyOf(o)], New: o}})
		delete(before, keyOf(o))
	}
	for _, o := range before {
		notifications = append(notifications, notification{Event: Event{Old: o}})
	}
	return notifications
}

// resolveWrites ends the waiting for writes that a list includes. Whether somebody
// else's change came between cannot be known from a list, so the writers are
// told.
func (c *watchCache) resolveWrites(version uint64) []notification {
	var notifications []notification
	for _, own := range c.pendingWrites {
		if slices.Min(own.versions) <= version {
			notifications = append(notifications, notification{Event: Event{Old: own.base, New: own.latest}, only: own.view})
		}
	}
	return notifications
}

// dropUnlisted drops what the list lacks, but for writes that are newer than it.
func (c *watchCache) dropUnlisted(listed map[key]string) []notification {
	var notifications []notification
	for name, o := range c.objects {
		if _, found := listed[name]; !found && o.Version() <= c.latestVersion {
			c.put(o, nil)
			notifications = append(notifications, notification{Event: Event{Old: o}})
		}
	}
	return notifications
}
