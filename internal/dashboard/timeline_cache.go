package dashboard

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// A run never changes, and to find out what brought it about takes reading two of them
// in full: what was found is kept for a while. It is not kept for longer since the rights
// of its reader may change; and not at all of a run that has only just been, whose object
// may have been read before it.
const (
	changeTTL    = time.Minute
	changeMinAge = 5 * time.Second
)

// How many bytes are kept in all, and of what changed before one run, roughly.
const (
	maxCacheBytes       = 8 << 20
	maxCacheEntryBytes  = 64 << 10
	changeOverheadBytes = 500
)

// changeCache are what changed before runs, as some visitor may see it.
type changeCache struct {
	mu    sync.Mutex
	bytes int
	byRun map[changeKey]cachedChanges
	// swept is when what is too old was forgotten last.
	swept time.Time
}

// changeKey names what was found: for whom, by the serial of a Client, about which object,
// and of which run. Ids begin anew with a process.
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

// sweep forgets, once in a while, what is too old to be shown.
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

// stripObjects are what is shown of what changed, without the objects that it was found in.
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

// objectChanges are what changed since the same was asked before a run, as found now or lately.
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
