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
	defaultLifetime = time.Hour
	defaultRoom     = 64 << 20
	// entrySize is about what a reply costs beside its body.
	entrySize = 512
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
	// Room is how many bytes of replies are kept, the most recently used ones;
	// 64 MiB if it is not above zero.
	Room int64
}

// replies are those a hook may refer to. Nil keeps none, and of no subject.
type replies struct {
	lifetime, cleanup time.Duration
	room              int64

	mu    sync.Mutex
	about map[subject]*list.Element
	// recent holds *reply, the one used last in front.
	recent *list.List
	size   int64
	// cleaned is when expired replies were last thrown away.
	cleaned time.Time
}

// subject is what a question is about.
type subject struct {
	kind   Question
	parent object.GroupKind
	object.Ref
}

// reply is one reply. Nil is none.
type reply struct {
	subject subject
	etag    string
	body    []byte
	expires time.Time
}

func newReplies(c ETag) *replies {
	if !c.Enabled {
		return nil
	}
	lifetime := positive(c.Timeout, defaultLifetime)
	return &replies{
		lifetime: lifetime,
		cleanup:  positive(c.Cleanup, lifetime),
		room:     positive(c.Room, defaultRoom),
		about:    map[subject]*list.Element{},
		recent:   list.New(),
		cleaned:  time.Now(),
	}
}

// find returns the last reply about the subject, or nil.
func (r *replies) find(about *subject) *reply {
	if r == nil || about == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	element := r.about[*about]
	if element == nil {
		return nil
	}
	found := element.Value.(*reply)
	if !time.Now().Before(found.expires) {
		r.drop(element)
		return nil
	}
	r.recent.MoveToFront(element)
	return found
}

// keep remembers a reply. One without an ETag only ends the use of the one
// before.
func (r *replies) keep(about *subject, etag string, body []byte) {
	if r == nil || about == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.about[*about]; old != nil {
		r.drop(old)
	}
	if etag != "" {
		// The body belongs to whoever asked.
		r.add(&reply{subject: *about, etag: etag, body: bytes.Clone(body), expires: now.Add(r.lifetime)})
	}
	r.tidy(now)
}

func (r *replies) add(came *reply) {
	r.about[came.subject] = r.recent.PushFront(came)
	r.size += came.size()
}

func (r *replies) drop(element *list.Element) {
	old := r.recent.Remove(element).(*reply)
	delete(r.about, old.subject)
	r.size -= old.size()
}

// tidy throws away what has expired, if it is time to, and what there is no
// room for.
func (r *replies) tidy(now time.Time) {
	if now.Sub(r.cleaned) >= r.cleanup {
		r.cleaned = now
		for _, element := range r.about {
			if !now.Before(element.Value.(*reply).expires) {
				r.drop(element)
			}
		}
	}
	for r.size > r.room {
		r.drop(r.recent.Back())
	}
}

func (r *reply) size() int64 { return entrySize + int64(len(r.etag)+len(r.body)) }

// asked is the header of a question that mentions the reply.
func (r *reply) asked(header http.Header) http.Header {
	if r == nil {
		return header
	}
	header = header.Clone()
	header.Set("If-None-Match", r.etag)
	return header
}

// stands says whether an answer means that the reply still holds.
func (r *reply) stands(code int) bool {
	return r != nil && (code == http.StatusNotModified || code == http.StatusPreconditionFailed)
}

// subject reads what the question is about, nil if that is no object. The group
// of the parent counts: two groups may have a kind of one name.
func (q question) subject() *subject {
	parent, err := object.Parse(q.parent)
	if err != nil {
		return nil
	}
	return &subject{kind: q.kind, parent: parent.GroupKind(), Ref: parent.Ref()}
}
