package webhook

import (
	"bytes"
	"container/list"
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
	// MaxBytes limits the size of the cache, which evicts the least recently used
	// responses; default 64 MiB.
	MaxBytes int64
}

// responseCache caches responses by parent. A nil cache stores nothing.
type responseCache struct {
	lifetime, cleanup time.Duration
	maxBytes          int64

	mu      sync.Mutex
	entries map[cacheKey]*list.Element
	// lru has *cachedResponse values, the most recently used in front.
	lru  *list.List
	size int64
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
	key     cacheKey
	etag    string
	body    []byte
	expires time.Time
}

func newResponseCache(c ETag) *responseCache {
	if !c.Enabled {
		return nil
	}
	lifetime := orDefault(c.Timeout, defaultCacheTimeout)
	return &responseCache{
		lifetime:    lifetime,
		cleanup:     orDefault(c.Cleanup, lifetime),
		maxBytes:    orDefault(c.MaxBytes, defaultCacheBytes),
		entries:     map[cacheKey]*list.Element{},
		lru:         list.New(),
		lastCleanup: time.Now(),
	}
}

// get returns the cached response for the key, or nil.
func (r *responseCache) get(about *cacheKey) *cachedResponse {
	if r == nil || about == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	element := r.entries[*about]
	if element == nil {
		return nil
	}
	found := element.Value.(*cachedResponse)
	if !time.Now().Before(found.expires) {
		r.remove(element)
		return nil
	}
	r.lru.MoveToFront(element)
	return found
}

// put stores a response. One without an ETag only removes its predecessor.
func (r *responseCache) put(about *cacheKey, etag string, body []byte) {
	if r == nil || about == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.entries[*about]; old != nil {
		r.remove(old)
	}
	if etag != "" {
		// The caller owns the body.
		r.add(&cachedResponse{key: *about, etag: etag, body: bytes.Clone(body), expires: now.Add(r.lifetime)})
	}
	r.evict(now)
}

func (r *responseCache) add(added *cachedResponse) {
	r.entries[added.key] = r.lru.PushFront(added)
	r.size += added.size()
}

func (r *responseCache) remove(element *list.Element) {
	old := r.lru.Remove(element).(*cachedResponse)
	delete(r.entries, old.key)
	r.size -= old.size()
}

// evict removes expired responses, if Cleanup has passed, and the least recently used
// ones above MaxBytes.
func (r *responseCache) evict(now time.Time) {
	if now.Sub(r.lastCleanup) >= r.cleanup {
		r.lastCleanup = now
		for _, element := range r.entries {
			if !now.Before(element.Value.(*cachedResponse).expires) {
				r.remove(element)
			}
		}
	}
	for r.size > r.maxBytes {
		r.remove(r.lru.Back())
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
