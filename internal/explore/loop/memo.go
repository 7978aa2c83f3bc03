package loop

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Memo remembers the responses of hooks. The first call of each request is made twice, to compare, and Repeat makes some
// once more. It is safe for concurrent use, and shared by the processes of a search.
//
// Requests that differ only in resource versions count as one, as long as the hook is not seen to depend on
// them: its first calls are compared.
type Memo struct {
	mu    sync.Mutex
	hooks map[string]*hookMemo
	// differs has the first difference of each hook.
	differs []Difference
	// restarted are hooks of processes that have just started, by name; nil while the first ones are called.
	restarted map[string]any
}

// Difference says that a hook responded to one request in two ways.
type Difference struct {
	// Hook is the program and the hook, such as "rolling-sets sync".
	Hook string
	// Fields are the paths that differ.
	Fields []string
	// Later is set if they differ only after calls with other requests, Restarted if the second one is of a process that
	// had just started.
	Later, Restarted bool
}

// HookStats counts the calls of a hook.
type HookStats struct {
	Hook string
	// Requests is the number of distinct requests, Calls that of calls made, and Errors that of those that failed.
	Requests, Calls, Errors int
	// FirstError is the error of the first call that failed.
	FirstError error
	// Took is the time of all calls.
	Took time.Duration
	// ReadsVersions means that responses depend on resource versions, which makes for more calls.
	ReadsVersions bool
}

// hookMemo is what one hook responded. The memo's lock guards it.
type hookMemo struct {
	stats     HookStats
	responses map[uint64]*remembered
	// versionChecks is how many requests with other versions were still called, to compare.
	versionChecks int
	// repeatable are calls that Repeat may make again.
	repeatable repeatable
}

// remembered is a response; done is closed once it is known.
type remembered struct {
	done chan struct{}
	// exact is the digest of the request with its resource versions.
	exact uint64
	value any
	err   error
	// text is the response as JSON.
	text []byte
	// unusable is set if the call ended early or had effects, so that it is to be repeated.
	unusable bool
}

// maxVersionChecks is how many requests that only differ in resource versions are called, to compare.
const maxVersionChecks = 32

// NewMemo returns an empty memo.
func NewMemo() *Memo { return &Memo{hooks: map[string]*hookMemo{}} }

// Stats returns the counts of all hooks, sorted by name.
func (m *Memo) Stats() []HookStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return lists.Map(lists.Keys(m.hooks), func(name string) HookStats { return m.hooks[name].stats })
}

// Differences returns the hooks that responded in two ways, each with the first such response, in the order in which
// they were found.
func (m *Memo) Differences() []Difference {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.differs)
}

// hookNamed returns the memo of a hook. The caller holds the lock.
func (m *Memo) hookNamed(name string) *hookMemo {
	h := m.hooks[name]
	if h == nil {
		h = &hookMemo{stats: HookStats{Hook: name}, responses: map[uint64]*remembered{}}
		m.hooks[name] = h
	}
	return h
}

// call is one call of a hook.
type call struct {
	hook    string
	request digests
	// do calls the hook. It returns the response as a value and as JSON. Pure is false if the response depends
	// on more than the request.
	do func(ctx context.Context) (value any, text []byte, pure bool, err error)
	// inRun is set if the hook reads indexes, which have their content in a run only.
	inRun bool
	// interrupted reports whether the context has ended.
	interrupted func() error
}

// respond returns the response to a call.
func (m *Memo) respond(ctx context.Context, c call) (any, error) {
	for {
		r, first := m.lookup(c)
		if first {
			m.learn(ctx, c, r)
			return r.value, r.err
		}
		<-r.done
		if !r.unusable {
			return m.reuse(ctx, c, r)
		}
		if err := c.interrupted(); err != nil {
			return nil, err
		}
	}
}

// lookup returns the response to a request; first means that the caller has to find it out.
func (m *Memo) lookup(c call) (r *remembered, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hookNamed(c.hook)
	key := h.key(c.request)
	if r := h.responses[key]; r != nil {
		return r, false
	}
	r = &remembered{done: make(chan struct{}), exact: c.request.exact}
	h.responses[key] = r
	h.stats.Requests++
	return r, true
}

func (h *hookMemo) key(request digests) uint64 {
	if h.stats.ReadsVersions {
		return request.exact
	}
	return request.versionless
}

// learn calls the hook twice and keeps the response.
func (m *Memo) learn(ctx context.Context, c call, r *remembered) {
	defer close(r.done)
	var pure bool
	r.value, r.text, pure, r.err = m.do(ctx, c)
	if pure && c.interrupted() == nil {
		_, again, _, err := m.do(ctx, c)
		if c.interrupted() == nil {
			m.compare(Difference{Hook: c.hook}, r, again, err)
			m.keep(c, r)
		}
	}
	if !pure || c.interrupted() != nil {
		m.forget(c, r)
	}
}

// do makes a call and counts it.
func (m *Memo) do(ctx context.Context, c call) (any, []byte, bool, error) {
	began := time.Now()
	value, text, pure, err := c.do(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := &m.hookNamed(c.hook).stats
	stats.Calls++
	stats.Took += time.Since(began)
	if err != nil && c.interrupted() == nil {
		stats.Errors++
		stats.FirstError = cmp.Or(stats.FirstError, err)
	}
	return value, text, pure, err
}

// forget removes a response that is of no use to others.
func (m *Memo) forget(c call, r *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.unusable = true
	h := m.hookNamed(c.hook)
	if key := h.key(c.request); h.responses[key] == r {
		delete(h.responses, key)
		h.stats.Requests--
	}
}

// reuse returns a known response. The first times that resource versions differ, it calls the hook to compare.
func (m *Memo) reuse(ctx context.Context, c call, r *remembered) (any, error) {
	if r.exact == c.request.exact || !m.checksVersions(c.hook) {
		return r.value, r.err
	}
	value, text, _, err := m.do(ctx, c)
	if interrupted := c.interrupted(); interrupted != nil {
		return nil, interrupted
	}
	if len(differences(r.text, text, r.err, err)) == 0 {
		return r.value, r.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hookNamed(c.hook)
	if !h.stats.ReadsVersions {
		h.stats.ReadsVersions = true
		clear(h.responses)
	}
	return value, err
}

func (m *Memo) checksVersions(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hookNamed(name)
	h.versionChecks++
	return h.versionChecks <= maxVersionChecks
}

// maxRepeatable is how many of the oldest calls of a hook are kept, and of the newest.
const maxRepeatable = 100

// repeatable are calls that were made: the oldest and the newest in their order, and the first with each intent.
type repeatable struct {
	oldest, newest, firsts []madeCall
	intents                map[uint64]bool
}

type madeCall struct {
	call

	r *remembered
}

// keep keeps a call to repeat it. A program that a call crashed would have to start again first.
func (m *Memo) keep(c call, r *remembered) {
	if c.inRun || r.err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of, made := &m.hookNamed(c.hook).repeatable, madeCall{c, r}
	if intent := c.request.intent(); !of.intents[intent] && len(of.firsts) < maxRepeatable {
		if of.intents == nil {
			of.intents = map[uint64]bool{}
		}
		of.intents[intent] = true
		of.firsts = append(of.firsts, made)
	}
	switch {
	case len(of.oldest) < maxRepeatable:
		of.oldest = append(of.oldest, made)
	case len(of.newest) < maxRepeatable:
		of.newest = append(of.newest, made)
	default:
		of.newest = append(of.newest[1:], made)
	}
}

// compare notes if two responses to one request differ. The difference says of which hook they are, and when.
func (m *Memo) compare(d Difference, r *remembered, again []byte, err error) {
	if d.Fields = differences(r.text, again, r.err, err); len(d.Fields) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.ContainsFunc(m.differs, func(other Difference) bool { return other.Hook == d.Hook }) {
		m.differs = append(m.differs, d)
	}
}

// differences returns the paths at which two responses differ. Two errors are equal: a program that crashes is gone at
// the second call.
func differences(first, second []byte, firstErr, secondErr error) []string {
	if (firstErr == nil) != (secondErr == nil) {
		return []string{fmt.Sprintf("the error of one of them: %v", cmp.Or(firstErr, secondErr))}
	}
	before, err := object.Decode(first)
	if err != nil {
		return nil // Both are errors without a response.
	}
	after, err := object.Decode(second)
	if err != nil {
		return nil
	}
	return lists.Map(object.Changes(before, after), func(c object.FieldChange) string { return c.Path })
}

// digests identify a request: with the resource versions in its objects, and without.
type digests struct {
	exact, versionless uint64
	// intent identifies what users want in it: the spec of its object, and related objects.
	intent func() uint64
}

// with returns the digests of a request together with a text.
func (d digests) with(text []byte) digests {
	hash := maphash.Bytes(seed, text)
	return digests{maphash.Comparable(seed, [2]uint64{d.exact, hash}), maphash.Comparable(seed, [2]uint64{d.versionless, hash}), d.intent}
}

// newDigests returns the digests of a request about an object, with related ones.
func newDigests(about []byte, related []hook.Group, parts ...[]byte) digests {
	return digests{maphash.Bytes(seed, bytes.Join(parts, []byte{0})), versionless(parts), func() uint64 { return intentOf(about, related) }}
}

// versionless returns the digest of parts of a request, without resource versions.
func versionless(parts [][]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	field := []byte(`"resourceVersion":"`)
	for _, data := range parts {
		for at := bytes.Index(data, field); at >= 0; at = bytes.Index(data, field) {
			_, _ = h.Write(data[:at]) // It never returns an error, here and below.
			data = data[at+len(field):]
			data = data[bytes.IndexByte(data, '"')+1:]
		}
		_, _ = h.Write(data)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// intentOf returns the digest of what users want.
func intentOf(about []byte, related []hook.Group) uint64 {
	others := versionless(partsOf(related))
	o, err := object.Parse(about)
	if err != nil {
		return others
	}
	wanted := o.IntentDigest()
	if spec := o.Field("spec"); spec != nil {
		wanted = object.DigestOf(spec)
	}
	return maphash.Comparable(seed, [2]uint64{others, wanted})
}

func partsOf(groups []hook.Group) [][]byte {
	parts := [][]byte{[]byte("groups")}
	for _, group := range groups {
		parts = append(parts, []byte(group.APIVersion), []byte(group.Kind))
		for _, entry := range group.Objects {
			parts = append(parts, []byte(entry.Namespace), []byte(entry.Name), entry.Object)
		}
	}
	return parts
}

func digestsOf(r *hook.Request) digests {
	own := [][]byte{r.Controller, r.Parent, strconv.AppendBool(nil, r.Finalizing)}
	return newDigests(r.Parent, r.Related, slices.Concat(own, partsOf(r.Children), partsOf(r.Related))...)
}
