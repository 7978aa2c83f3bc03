package webhook

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	defaultCacheTimeout = time.Hour
	defaultCacheBytes   = 64 << 20
	// entryOverhead approximates the memory of a cached response without its body.
	entryOverhead = 512
)

// ETag configures the cache of responses with an ETag header. The next request for the
// same parent sends the ETag as If-None-Match; a status of 304 or 412 then selects the
// cached response.
type ETag struct {
	Enabled bool
	// Timeout is the maximum age of a cached response; default one hour.
	Timeout time.Duration
	// Cleanup is the interval between evictions of expired responses; default Timeout.
	Cleanup time.Duration
	// MaxBytes limits the size of the cache, which evicts some responses for others; default 64 MiB.
	MaxBytes int64
}

// responseCache caches responses by parent. A nil cache stores nothing.
type responseCache struct {
	lifetime, cleanup time.Duration
	maxBytes          int64

	mu      sync.Mutex
	entries map[cacheKey]*cachedResponse
	size    int64
	// lastCleanup is the time of the latest eviction of expired responses.
	lastCleanup time.Time
}

// cacheKey identifies the parent of a request.
type cacheKey struct {
	hookType call.HookType
	object.Ref
}

// cachedResponse is one response. Nil means none.
type cachedResponse struct {
	etag    string
	body    []byte
	expires time.Time
}

func newResponseCache(c ETag) *responseCache {
	if !c.Enabled {
		return nil
	}
	lifetime := cmp.Or(max(c.Timeout, 0), defaultCacheTimeout)
	return &responseCache{
		lifetime: lifetime, cleanup: cmp.Or(max(c.Cleanup, 0), lifetime), maxBytes: cmp.Or(max(c.MaxBytes, 0), defaultCacheBytes),
		entries: map[cacheKey]*cachedResponse{}, lastCleanup: time.Now(),
	}
}

// get returns the cached response for the key, or nil.
func (r *responseCache) get(about *cacheKey) *cachedResponse {
	if r == nil || about == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.entries[*about]; found != nil && time.Now().Before(found.expires) {
		return found
	}
	return nil
}

// put stores a response. One without an ETag only removes its predecessor.
func (r *responseCache) put(about *cacheKey, etag string, body []byte) {
	if r == nil || about == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(*about)
	if now.Sub(r.lastCleanup) >= r.cleanup {
		r.lastCleanup = now
		r.evict(func(old *cachedResponse) bool { return !now.Before(old.expires) })
	}
	if etag == "" {
		return
	}
	added := &cachedResponse{etag: etag, body: bytes.Clone(body), expires: now.Add(r.lifetime)} // The caller owns the body.
	r.evict(func(*cachedResponse) bool { return r.size+added.size() > r.maxBytes })
	if added.size() <= r.maxBytes {
		r.entries[*about] = added
		r.size += added.size()
	}
}

func (r *responseCache) evict(is func(*cachedResponse) bool) {
	for key, old := range r.entries {
		if is(old) {
			r.remove(key)
		}
	}
}

func (r *responseCache) remove(key cacheKey) {
	if old := r.entries[key]; old != nil {
		delete(r.entries, key)
		r.size -= old.size()
	}
}

func (r *cachedResponse) size() int64 { return entryOverhead + int64(len(r.etag)+len(r.body)) }

// withIfNoneMatch adds the ETag of the cached response to the header.
func (r *cachedResponse) withIfNoneMatch(header http.Header) http.Header {
	if r == nil {
		return header
	}
	header = header.Clone()
	header.Set("If-None-Match", r.etag)
	return header
}

// confirmedBy reports whether the status code selects the cached response.
func (r *cachedResponse) confirmedBy(code int) bool {
	return r != nil && (code == http.StatusNotModified || code == http.StatusPreconditionFailed)
}

// keyOf returns the key of the request's parent; nil if the response must not be cached.
// Each event of a handler and each review needs a response of its own. The key includes
// the API group, since two groups may share a kind.
func (r *responseCache) keyOf(req *call.Request) *cacheKey {
	if r == nil || !slices.Contains([]call.HookType{call.Sync, call.Finalize, call.Customize}, req.HookType) {
		return nil
	}
	parent, err := object.Parse(req.Object)
	if err != nil {
		return nil
	}
	return &cacheKey{hookType: req.HookType, Ref: parent.Ref().Identity()}
}
