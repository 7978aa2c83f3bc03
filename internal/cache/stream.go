package cache

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	machinery "k8s.io/apimachinery/pkg/watch"
	reflectors "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Adapters between a watch and client-go's Reflector, which knows when to list, where to resume and how long to wait.

// listItem is an object for the reflector, which needs only its name and version.
type listItem struct{ *object.Object }

// GetObjectKind is not used.
func (i listItem) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the item itself, since objects are immutable.
func (i listItem) DeepCopyObject() runtime.Object { return i }

// GetObjectMeta returns the metadata that the reflector needs.
func (i listItem) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace(), Name: i.Name(), ResourceVersion: i.ResourceVersion()}
}

// reflectorStore is the store that the reflector fills.
type reflectorStore struct{ watch *watch }

// Add handles an ADDED event.
func (s reflectorStore) Add(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverUpdated(obj.(listItem).Object) })
	return nil
}

// Update handles a MODIFIED event.
func (s reflectorStore) Update(obj any) error { return s.Add(obj) }

// Delete handles a DELETED event.
func (s reflectorStore) Delete(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverDeleted(obj.(listItem).Object) })
	return nil
}

var _ reflectors.ReflectorBookmarkStore = reflectorStore{}

// Bookmark handles a BOOKMARK event.
func (s reflectorStore) Bookmark(resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err == nil {
		s.watch.apply(func(c *watchCache) []notification { c.advance(version); return nil })
	}
	return err
}

// Replace handles a complete list.
func (s reflectorStore) Replace(items []any, resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err != nil {
		return err
	}
	list := make([]*object.Object, len(items))
	for i := range items {
		list[i] = items[i].(listItem).Object
	}
	s.watch.replace(list, version)
	return nil
}

// Resync does nothing: resyncs are those of the queue.
func (s reflectorStore) Resync() error { return nil }

func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version %q is no integer", text)
	}
	return version, nil
}

// reflectorClock is the real clock, except that it waits for the delay of the connection, or until ctx ends. The
// reflector waits only between attempts, and ignores its context when a watch is refused.
type reflectorClock struct {
	clock.RealClock
	ctx        context.Context //nolint:containedctx // The interface of clocks passes no context.
	connection *connection
}

// After returns a channel that receives when the next attempt is due, or when ctx ends.
func (c reflectorClock) After(time.Duration) <-chan time.Time {
	passed := make(chan time.Time, 1)
	waiting, cancel := context.WithTimeout(c.ctx, c.connection.nextDelay())
	context.AfterFunc(waiting, func() {
		cancel()
		passed <- time.Now()
	})
	return passed
}

// readAhead is the number of events that are parsed ahead of the cache.
const readAhead = 16

// stream reads the events of an open watch.
type stream struct {
	watch *watch
	// parse parses an object, and fail reports an error.
	parse  func([]byte) (*object.Object, error)
	fail   func(context.Context, error)
	body   io.ReadCloser
	frames *frameReader
	events chan machinery.Event
	cancel context.CancelFunc
	// listing is set until the streamed list is complete.
	listing bool
}

// ResultChan is closed when the watch has ended.
func (s *stream) ResultChan() <-chan machinery.Event { return s.events }

// Stop ends the watch.
func (s *stream) Stop() { s.cancel() }

// run reads until the connection ends or is closed. Its end, even within an event, is no
// error: the reflector resumes. An incomplete streamed list must be requested again.
func (s *stream) run(ctx context.Context) {
	defer close(s.events)
	defer s.body.Close()
	for {
		event, err := s.next()
		if ctx.Err() != nil || errors.Is(err, errEnded) && !s.listing {
			s.watch.options.Log.Debug("watch ended", "selection", s.watch.selection.String(), "error", err)
			return
		}
		if err != nil {
			event = s.errorEvent(ctx, err)
		}
		select {
		case s.events <- event:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// errEnded means that the connection ended.
var errEnded = errors.New("the connection ended")

func (s *stream) next() (machinery.Event, error) {
	kind, data, err := s.frames.next()
	if err != nil {
		if _, malformed := errors.AsType[*json.SyntaxError](err); malformed {
			return machinery.Event{}, fmt.Errorf("read event: %w", err)
		}
		return machinery.Event{}, fmt.Errorf("%w: %w", errEnded, err)
	}
	switch kind {
	case machinery.Bookmark:
		return s.bookmark(data)
	case machinery.Error:
		return machinery.Event{}, statusError(data)
	}
	o, err := s.parse(data)
	if err != nil {
		return machinery.Event{}, fmt.Errorf("read %s event: %w", kind, err)
	}
	return machinery.Event{Type: kind, Object: listItem{o}}, nil
}

// bookmark reads a BOOKMARK event, which also ends a streamed list.
func (s *stream) bookmark(data []byte) (machinery.Event, error) {
	mark := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(data, mark); err != nil {
		return machinery.Event{}, fmt.Errorf("read bookmark: %w", err)
	}
	if s.listing && mark.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		s.listing = false
		s.watch.report(nil)
	}
	return machinery.Event{Type: machinery.Bookmark, Object: mark}, nil
}

func statusError(data []byte) error {
	status := metav1.Status{}
	if err := json.Unmarshal(data, &status); err != nil {
		return fmt.Errorf("read error event: %w", err)
	}
	return apierrors.FromObject(&status)
}

// errorEvent returns the event that reports an error to the reflector.
func (s *stream) errorEvent(ctx context.Context, err error) machinery.Event {
	if !s.listing || reportsStream(err) {
		s.fail(ctx, err)
	}
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	return machinery.Event{Type: machinery.Error, Object: &status}
}

// reportsStream reports whether the error of a streamed list is the one to report: the reflector retries it, or it took
// long. After any other error the reflector requests an ordinary list, whose error is the one to report.
func reportsStream(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) || errors.Is(err, errIdle)
}

const (
	// frameBuffer is large enough for most events.
	frameBuffer = 16 << 10
	// maxKeptBuffer limits the buffer that is kept after a larger event.
	maxKeptBuffer = 64 << 10
)

// frameReader splits the body of a watch into events. API servers write each event as one line that begins with its
// type, which is read without parsing the object. Anything else is left to a JSON decoder from then on.
type frameReader struct {
	in       *bufio.Reader
	longLine []byte
	decoder  *json.Decoder
}

func newFrameReader(body io.Reader) *frameReader {
	return &frameReader{in: bufio.NewReaderSize(body, frameBuffer)}
}

// next returns the next event, valid until the next call; io.EOF at the end, io.ErrUnexpectedEOF within an event.
func (f *frameReader) next() (machinery.EventType, []byte, error) {
	if f.decoder != nil {
		return f.decode()
	}
	line, err := f.line()
	if err != nil && len(line) == 0 {
		return "", nil, err
	}
	if kind, object, ok := split(line); ok && err == nil {
		return kind, object, nil
	}
	f.decoder = json.NewDecoder(io.MultiReader(bytes.NewReader(bytes.Clone(line)), f.in))
	return f.decode()
}

// line reads a line, without copying it if it fits into the buffer.
func (f *frameReader) line() ([]byte, error) {
	line, err := f.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	if cap(f.longLine) > maxKeptBuffer {
		f.longLine = nil
	}
	f.longLine = f.longLine[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		f.longLine = append(f.longLine, line...)
		line, err = f.in.ReadSlice('\n')
	}
	f.longLine = append(f.longLine, line...)
	return f.longLine, err
}

// split splits {"type":"ADDED","object":{...}}.
func split(line []byte) (kind machinery.EventType, object []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"type":"`))
	if !ok {
		return "", nil, false
	}
	name, rest, _ := bytes.Cut(rest, []byte(`"`))
	rest, ok = bytes.CutPrefix(rest, []byte(`,"object":`))
	if !ok {
		return "", nil, false
	}
	object, ok = bytes.CutSuffix(bytes.TrimRight(rest, " \r\n"), []byte("}"))
	return eventType(name), object, ok && bytes.HasPrefix(object, []byte("{")) && bytes.HasSuffix(object, []byte("}"))
}

// eventType avoids an allocation for known types.
func eventType(name []byte) machinery.EventType {
	for _, known := range [...]machinery.EventType{
		machinery.Added, machinery.Modified, machinery.Deleted, machinery.Bookmark, machinery.Error,
	} {
		if string(known) == string(name) {
			return known
		}
	}
	return machinery.EventType(name)
}

func (f *frameReader) decode() (machinery.EventType, []byte, error) {
	var event struct {
		Type   machinery.EventType `json:"type"`
		Object json.RawMessage     `json:"object"`
	}
	err := f.decoder.Decode(&event)
	return event.Type, event.Object, err
}

// errLost means that a watch ended and none is open yet.
var errLost = errors.New("the connection to the API server was lost; reconnecting")

// connection tracks the connection of a watch. It computes delays, and reports one that is lost for the grace period.
type connection struct {
	options Options
	report  func(error)

	mu sync.Mutex
	// delay is the last delay, asked the least that the API server asked for since, opened when the watch was opened.
	delay, asked time.Duration
	opened       time.Time
	// lostTimer reports the lost connection unless it is stopped, or the context has ended.
	lostTimer *time.Timer
}

func (c *connection) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = time.Now()
	if c.lostTimer != nil {
		c.lostTimer.Stop()
		c.lostTimer = nil
	}
}

// disconnected records that the watch has ended. One that lasted longer than its delay has worked, and resets it.
func (c *connection) disconnected(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.opened) > c.delay {
		c.delay = 0
	}
	if c.lostTimer == nil && ctx.Err() == nil {
		c.lostTimer = time.AfterFunc(c.options.GracePeriod, func() {
			if ctx.Err() == nil {
				c.report(errLost)
			}
		})
	}
}

// refused records that the API server answered an attempt with an error, which may have a Retry-After.
func (c *connection) refused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seconds, asks := apierrors.SuggestsClientDelay(err); asks {
		c.asked = min(time.Duration(seconds)*time.Second, c.options.MaxBackoff)
	}
}

// nextDelay returns the delay before the next attempt: twice the previous one, or what the API server asked for, plus
// as much jitter, so that watches that failed together are not retried together.
func (c *connection) nextDelay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = min(max(2*c.delay, c.options.MinBackoff), c.options.MaxBackoff/2)
	least := max(c.delay, c.asked)
	c.asked = 0
	return least + time.Duration(rand.Int64N(int64(c.delay)+1))
}

// idleJitter spreads idle timeouts, so that watches that became idle together are not reopened together.
const idleJitter = 0.2

// errIdle means that the API server sent nothing for the idle timeout.
var errIdle = errors.New("the API server, or a proxy before it, sends nothing")

// idleBody is the body of a response that is canceled when nothing arrives for the timeout. A proxy that drops packets,
// or an API server that lost a request, cannot be detected otherwise. Time in which no watch reads does not count.
type idleBody struct {
	io.ReadCloser
	//nolint:containedctx // Its cause says why the body ended.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
}

// openUnlessIdle sends a request and returns the body of its response. Both the wait for the
// headers and each wait for more of the body end after the timeout.
func openUnlessIdle(ctx context.Context, timeout time.Duration, send func(context.Context) (io.ReadCloser, error)) (io.ReadCloser, error) {
	b := &idleBody{timeout: wait.Jitter(timeout, idleJitter)}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.timer = time.AfterFunc(b.timeout, func() { b.cancel(fmt.Errorf("%w for %s", errIdle, timeout)) })
	body, err := send(b.ctx)
	b.timer.Stop()
	if err != nil {
		b.cancel(nil)
		if cause := b.idle(err); cause != err { //nolint:errorlint // Asks whether it is the same error.
			return nil, &url.Error{Op: "Get", Err: cause}
		}
		return nil, err
	}
	b.ReadCloser = body
	return b, nil
}

// Read fails with errIdle when nothing arrives for the timeout.
func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.timeout)
	defer b.timer.Stop()
	n, err := b.ReadCloser.Read(p)
	return n, b.idle(err)
}

// Close closes the body and ends its request.
func (b *idleBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// idle returns errIdle for the error of a request that it ended, else the error.
func (b *idleBody) idle(err error) error {
	if cause := context.Cause(b.ctx); err != nil && errors.Is(cause, errIdle) {
		return cause
	}
	return err
}
