package dashboard

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// Runs never change, and finding the triggers of a run means reading two runs in full, so the
// result is cached. It expires because the permissions of the user may change. New runs are not
// cached, since their object may have been read before them.
const (
	changeTTL    = time.Minute
	changeMinAge = 5 * time.Second
)

// Approximate memory limits.
const (
	maxCacheBytes       = 8 << 20
	maxCacheEntryBytes  = 64 << 10
	changeOverheadBytes = 500
)

// changeCache caches the object changes of runs as a user may see them.
type changeCache struct {
	mu    sync.Mutex
	bytes int
	byRun map[changeKey]cachedChanges
	// swept is when expired entries were removed last.
	swept time.Time
}

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

type cachedChanges struct {
	changes []objectChange
	at      time.Time
}

func (k *changeCache) get(key changeKey, now time.Time) (objectChanges []objectChange, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.byRun[key]
	return found.changes, ok && now.Sub(found.at) < changeTTL
}

func (k *changeCache) put(key changeKey, objectChanges []objectChange, now time.Time) {
	size := changesSize(objectChanges)
	if size > maxCacheEntryBytes {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweep(now)
	if k.byRun == nil || k.bytes+size > maxCacheBytes {
		k.byRun, k.bytes = map[changeKey]cachedChanges{}, 0
	}
	if old, is := k.byRun[key]; is {
		k.bytes -= changesSize(old.changes)
	}
	k.byRun[key] = cachedChanges{objectChanges, now}
	k.bytes += size
}

// sweep removes expired entries from time to time.
func (k *changeCache) sweep(now time.Time) {
	if now.Sub(k.swept) <= changeTTL {
		return
	}
	k.swept = now
	for key, old := range k.byRun {
		if now.Sub(old.at) >= changeTTL {
			k.bytes -= changesSize(old.changes)
			delete(k.byRun, key)
		}
	}
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

// stripObjects removes the compared objects from changes.
func stripObjects(objectChanges []objectChange) []objectChange {
	objectChanges = slices.Clone(objectChanges)
	for i := range objectChanges {
		w := &objectChanges[i]
		w.Changes, w.Before, w.After = nil, nil, nil
		w.Fields = slices.Clone(w.Fields)
		for k := range w.Fields {
			f := &w.Fields[k]
			*f = model.Change{Path: f.Path, From: bytes.Clone(f.From), To: bytes.Clone(f.To)}
		}
	}
	return objectChanges
}

// objectChanges returns what changed since the previous call, from the cache if possible.
func (l *runLoader) objectChanges(s *pageObject, of model.Run) []objectChange {
	key := changeKey{l.api.Serial(), of.Process, of.ID, of.Began.UnixNano(), s.UID, of.Controller}
	now := l.now()
	if objectChanges, known := l.changeCache.get(key, now); known {
		return objectChanges
	}
	objectChanges, known := l.findChanges(s, of)
	if known && l.accessErrors.first() == nil && now.Sub(of.Began) > of.Took+changeMinAge {
		objectChanges = stripObjects(objectChanges)
		l.changeCache.put(key, objectChanges, now)
	}
	return objectChanges
}
