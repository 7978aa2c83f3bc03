package webhook

import (
	"bytes"
	"container/list"
	"net/http"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	defaultCacheTimeout = time.Hour
	defaultCacheBytes   = 64 << 20
	// entryOverhead is about what a reply costs beside its body.
	entryOverhead = 512
)

// ETag lets a hook say that its last reply about a parent still holds, instead
// of repeating it. Its reply then needs the header ETag; the next question about
// the parent has it as If-None-Match, and an answer of 304 or 412 stands for
// that reply.
type ETag struct {
	Enabled bool
	// Timeout is how long after it came a reply may be used; an hour if it is
	// not above zero.
	Timeout time.Duration
	// Cleanup is how often replies past that are thrown away; as often as
	// Timeout if it is not above zero.
	Cleanup time.Duration
	// MaxBytes is how many bytes of replies are kept, the most recently used ones;
	// 64 MiB if it is not above zero.
	MaxBytes int64
}

// responseCache are those a hook may refer to. Nil keeps none, and of no subject.
type responseCache struct {
	lifetime, cleanup time.Duration
	maxBytes          int64

	mu      sync.Mutex
	entries map[cacheKey]*list.Element
	// lru holds *reply, the one used last in front.
	lru  *list.List
	size int64
	// lastCleanup is when expired replies were last thrown away.
	lastCleanup time.Time
}

// cacheKey is what a question is about.
type cacheKey struct {
	hookType  HookType
	groupKind object.GroupKind
	object.Ref
}

// cachedResponse is one reply. Nil is none.
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

// get returns the last reply about the subject, or nil.
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

// put remembers a reply. One without an ETag only ends the use of the one
// before.
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
		// The body belongs to whoever asked.
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

// evict throws away what has expired, if it is time to, and what there is no
// room for.
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

// withIfNoneMatch is the header of a question that mentions the reply.
func (r *cachedResponse) withIfNoneMatch(header http.Header) http.Header {
	if r == nil {
		return header
	}
	header = header.Clone()
	header.Set("If-None-Match", r.etag)
	return header
}

// confirmedBy says whether an answer means that the reply still holds.
func (r *cachedResponse) confirmedBy(code int) bool {
	return r != nil && (code == http.StatusNotModified || code == http.StatusPreconditionFailed)
}

// cacheKey reads what the question is about, nil if that is no object. The group
// of the parent counts: two groups may have a kind of one name.
func (q request) cacheKey() *cacheKey {
	parent, err := object.Parse(q.parent)
	if err != nil {
		return nil
	}
	return &cacheKey{hookType: q.hookType, groupKind: parent.GroupKind(), Ref: parent.Ref()}
}
