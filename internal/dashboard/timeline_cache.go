package dashboard

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Runs never change, and finding the triggers of a run means reading two runs in full, so the
// result is cached. It expires because the permissions of the user may change. New runs are not
// cached, since their object may have been read before them.
const (
	changeTTL    = time.Minute
	changeMinAge = 5 * time.Second
)

// Memory limits: how many results are cached, and the approximate bytes of each.
const (
	maxCachedChanges    = 500
	maxCacheEntryBytes  = 16 << 10
	changeOverheadBytes = 500
)

// changeKey identifies a result: the serial of the user's Client, the object, and the run. IDs
// restart with a process.
type changeKey struct {
	reader     uint64
	process    string
	id         uint64
	began      int64
	uid        string
	controller string
}

func changesSize(objectChanges []objectChange) int {
	size := changeOverheadBytes
	for i := range objectChanges {
		size += changeOverheadBytes
		for _, field := range objectChanges[i].Fields {
			size += changeOverheadBytes/2 + len(field.From) + len(field.To) + len(field.Path)
		}
	}
	return size
}

// objectChanges returns what changed since the previous call, from the cache if possible.
func (l *runLoader) objectChanges(s *pageObject, of inspect.Run) []objectChange {
	key := changeKey{l.api.Serial(), of.Process, of.ID, of.Began.UnixNano(), s.UID, of.Controller}
	if cached, known := l.changeCache.Get(key); known {
		return cached.([]objectChange) //nolint:forcetypeassert // Only this function adds to the cache.
	}
	objectChanges, known := l.findChanges(s, of)
	isFinal := known && l.accessErrors.first() == nil && l.now().Sub(of.Began) > of.Took+changeMinAge
	if isFinal && changesSize(objectChanges) <= maxCacheEntryBytes {
		l.changeCache.Add(key, objectChanges, changeTTL)
	}
	return objectChanges
}
