package ui

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// A run never changes, and to find out what brought it about takes reading two of them
// in full: what was found is kept for a while. It is not kept for longer since the rights
// of its reader may change; and not at all of a run that has only just been, whose object
// may have been read before it.
const (
	keepFor   = time.Minute
	keepAfter = 5 * time.Second
)

// How many bytes are kept in all, and of what changed before one run, roughly.
const (
	maxKept    = 8 << 20
	maxKeptOne = 64 << 10
	keptWhy    = 500
)

// keptWhys are what changed before runs, as some visitor may see it.
type keptWhys struct {
	mu    sync.Mutex
	bytes int
	byRun map[whysKey]kept
	// swept is when what is too old was forgotten last.
	swept time.Time
}

// whysKey names what was found: for whom, by the serial of a Client, about which object,
// and of which run. Ids begin anew with a process.
type whysKey struct {
	reader     uint64
	process    string
	id         uint64
	began      int64
	uid        string
	controller string
}

type kept struct {
	whys []why
	at   time.Time
}

func (k *keptWhys) get(key whysKey, now time.Time) (whys []why, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.byRun[key]
	return found.whys, ok && now.Sub(found.at) < keepFor
}

func (k *keptWhys) put(key whysKey, whys []why, now time.Time) {
	size := sizeOfWhys(whys)
	if size > maxKeptOne {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweep(now)
	if k.byRun == nil || k.bytes+size > maxKept {
		k.byRun, k.bytes = map[whysKey]kept{}, 0
	}
	if old, is := k.byRun[key]; is {
		k.bytes -= sizeOfWhys(old.whys)
	}
	k.byRun[key] = kept{whys, now}
	k.bytes += size
}

// sweep forgets, once in a while, what is too old to be shown.
func (k *keptWhys) sweep(now time.Time) {
	if now.Sub(k.swept) <= keepFor {
		return
	}
	k.swept = now
	for key, old := range k.byRun {
		if now.Sub(old.at) >= keepFor {
			k.bytes -= sizeOfWhys(old.whys)
			delete(k.byRun, key)
		}
	}
}

func sizeOfWhys(whys []why) int {
	size := keptWhy
	for i := range whys {
		size += keptWhy
		for _, field := range whys[i].Fields {
			size += keptWhy/2 + len(field.From) + len(field.To) + len(field.Path)
		}
	}
	return size
}

// alone are what is shown of what changed, without the objects that it was found in.
func alone(whys []why) []why {
	whys = slices.Clone(whys)
	for i := range whys {
		w := &whys[i]
		w.Changes, w.Before, w.After = nil, nil, nil
		w.Fields = slices.Clone(w.Fields)
		for k := range w.Fields {
			f := &w.Fields[k]
			*f = inspect.Change{Path: f.Path, From: bytes.Clone(f.From), To: bytes.Clone(f.To)}
		}
	}
	return whys
}

// whys are what changed since the same was asked before a run, as found now or lately.
func (l *lookup) whys(s *subject, of inspect.Run) []why {
	key := whysKey{l.api.Serial(), of.Process, of.ID, of.Began.UnixNano(), s.UID, of.Controller}
	now := l.now()
	if whys, known := l.kept.get(key, now); known {
		return whys
	}
	whys, known := l.find(s, of)
	if known && l.doubt.reason() == nil && now.Sub(of.Began) > of.Took+keepAfter {
		whys = alone(whys)
		l.kept.put(key, whys, now)
	}
	return whys
}
