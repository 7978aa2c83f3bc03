package cache

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// replace replaces the objects by a list of a version.
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
	// A tombstone is obsolete if the list is newer and lacks the object. If the list
	// has the object, its deletion is still to come.
	maps.DeleteFunc(c.tombstones, func(name key, t tombstone) bool { return t.version <= version && listed[name] != t.uid })
	c.advance(version)
	return append(notifications, c.dropUnlisted(listed)...)
}

// reset replaces everything by a list. A list older than known versions means that the
// storage of the API server was restored, so that all known versions are void.
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

// resolveWrites ends pending writes that a list includes. A list does not show whether another
// client's change came between, so the writers are notified.
func (c *watchCache) resolveWrites(version uint64) []notification {
	var notifications []notification
	for _, own := range c.pendingWrites {
		if slices.Min(own.versions) <= version {
			notifications = append(notifications, notification{Event: Event{Old: own.base, New: own.latest}, only: own.view})
		}
	}
	return notifications
}

// dropUnlisted deletes objects that the list lacks, except newer writes.
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
