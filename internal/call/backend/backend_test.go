package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// fakeProcess serves a stream of notifications.
type fakeProcess struct {
	mu     sync.Mutex
	down   error
	opened int
	out    *io.PipeWriter
}

func (p *fakeProcess) open(ctx context.Context) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	p.opened++
	in, out := io.Pipe()
	p.out = out
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	return in, nil
}

func (p *fakeProcess) setDown(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = err
	if err != nil && p.out != nil {
		_ = p.out.Close()
	}
}

// write writes lines, and waits until they are read.
func (p *fakeProcess) write(lines ...string) {
	p.mu.Lock()
	out := p.out
	p.mu.Unlock()
	_, _ = io.WriteString(out, strings.Join(lines, "\n")+"\n")
	synctest.Wait()
}

func (p *fakeProcess) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// fakeController handles one kind and records what it gets.
type fakeController struct {
	kind string

	mu  sync.Mutex
	got []string
}

func (c *fakeController) record(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, what)
}

func (c *fakeController) Connected() { c.record("connected") }
func (c *fakeController) Handles(apiVersion, kind string) bool {
	return apiVersion == "v1" && kind == c.kind
}
func (c *fakeController) Notified(n *hook.Notification) { c.record("notified " + n.Name) }
func (c *fakeController) Publish(n *hook.Notification) {
	c.record("event " + n.Name + " " + n.Reason)
}
func (c *fakeController) IndexesComplete() { c.record("complete") }

// take returns what the controller got since the last call.
func (c *fakeController) take() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := strings.Join(c.got, ", ")
	c.got = nil
	return got
}

func (c *fakeController) expect(t *testing.T, step, want string) {
	t.Helper()
	if got := c.take(); got != want {
		t.Errorf("%s: %s got %q, want %q", step, c.kind, got, want)
	}
}

type results struct {
	mu  sync.Mutex
	all []Result
}

func (r *results) add(result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, result)
}

func (r *results) count(want Result) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(r.all), func(one Result) bool { return one != want }))
}

func object(kind, name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"name":%q,"namespace":"town"}`, kind, name)
}

func event(kind, name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"name":%q,"event":{"reason":"Rung","message":"twice"}}`, kind, name)
}

// Controllers of one process share a stream, which ends with the last of them.
func TestStreamIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, all := &fakeProcess{}, &results{}
		backends := New(slog.New(slog.DiscardHandler), all.add)
		bells, clocks := &fakeController{kind: "Bell"}, &fakeController{kind: "Clock"}
		first := backends.Join("process", bells, Member{Open: p.open})
		second := backends.Join("process", clocks, Member{Open: p.open})
		first.Start()
		bells.expect(t, "start", "connected")
		second.Start()
		clocks.expect(t, "start later", "connected")

		p.write(object("Bell", "big"), "", object("Clock", "old"), event("Clock", "old"), event("Tower", "high"), object("Tower", "high"))
		bells.expect(t, "lines", "notified big, event high Rung")
		clocks.expect(t, "lines", "notified old, event old Rung")
		if got := []int{all.count(ResultObject), all.count(ResultEvent), all.count(ResultUnknown)}; !slices.Equal(got, []int{2, 2, 1}) {
			t.Errorf("results %v", got)
		}

		first.Stop()
		first.Leave()
		clocks.expect(t, "the other opens the stream", "connected")
		p.write(object("Bell", "big"), object("Clock", "new"))
		bells.expect(t, "after it stopped", "")
		clocks.expect(t, "lines", "notified new")
		second.Stop()
		second.Leave()
		synctest.Wait()
		if len(backends.byID) > 0 || p.connections() != 2 {
			t.Errorf("%d processes, %d connections", len(backends.byID), p.connections())
		}
	})
}

// A stream that ends, or is silent, is opened again, and a process that does not run is tried
// again and again.
func TestStreamReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProcess{}
		c := &fakeController{kind: "Bell"}
		m := New(slog.New(slog.DiscardHandler), func(Result) {}).Join("process", c, Member{Open: p.open})
		m.Start()
		c.expect(t, "start", "connected")
		for range 4 { // Signs of life.
			<-time.After(silence - time.Second)
			p.write("")
		}
		c.expect(t, "alive", "")
		<-time.After(silence + minDelay*2)
		c.expect(t, "silent", "connected")

		p.setDown(errors.New("connection refused"))
		<-time.After(time.Minute)
		c.expect(t, "down", "")
		if err := m.StreamError(); err == nil || err.Error() != "connection refused" {
			t.Errorf("error %v", err)
		}
		p.setDown(nil)
		<-time.After(maxDelay * 2)
		c.expect(t, "up", "connected")
		if err := m.StreamError(); err != nil || m.Connections() != 3 {
			t.Errorf("error %v, %d connections", err, m.Connections())
		}
		m.Stop()
	})
}

// A server that responds to the request, but not with a stream, is not called all the time.
func TestNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeController{kind: "Bell"}
		m := New(slog.New(slog.DiscardHandler), func(Result) {}).Join("process", c, Member{Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("{}\n")), nil
		}})
		m.Start()
		<-time.After(10 * time.Minute)
		if n := m.Connections(); n > 60 {
			t.Errorf("%d connections", n)
		}
		if err := m.StreamError(); err == nil || !errors.Is(err, errEnded) {
			t.Errorf("error %v", err)
		}
		m.Stop()
	})
}

// Invalid lines are counted and skipped. They are logged once in a while.
func TestMalformedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		p, all, c := &fakeProcess{}, &results{}, &fakeController{kind: "Bell"}
		m := New(slog.New(slog.NewTextHandler(&logged, nil)), all.add).Join("process", c, Member{Open: p.open})
		m.Start()
		c.take()
		invalid := []string{
			"ring", `{"apiVersion":"v1"`, `[]`, `{"apiVersion":"v1","kind":"Bell"}`, `{"apiVersion":"v1","kind":"Bell","name":"x","colour":"red"}`,
			`{"apiVersion":"v1","kind":"Bell","name":"x","event":{"reason":"no word"}}`, "\x00\xff", `{"a":"` + strings.Repeat("x", 3*maxLine) + `"}`,
		}
		p.write(append(invalid, object("Bell", "big"))...)
		c.expect(t, "after invalid lines", "notified big")
		if n := all.count(ResultMalformed); n != len(invalid) {
			t.Errorf("%d malformed, want %d", n, len(invalid))
		}
		m.Stop()
		synctest.Wait()
		if n := strings.Count(logged.String(), "invalid notification ignored"); n != 1 {
			t.Errorf("%d lines logged:\n%s", n, &logged)
		}
	})
}

// A process that writes too fast waits; nothing is lost.
func TestRateOfLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, all, c := &fakeProcess{}, &results{}, &fakeController{kind: "Bell"}
		m := New(slog.New(slog.DiscardHandler), all.add).Join("process", c, Member{Open: p.open})
		m.Start()
		c.take()
		start := time.Now()
		const lines = 3*maxLines + 1
		p.write(slices.Repeat([]string{object("Bell", "big")}, lines)...)
		if took := time.Since(start); took < 2*linesInterval || all.count(ResultObject) < lines-maxLine {
			t.Errorf("%d lines in %s", all.count(ResultObject), took)
		}
		<-time.After(2 * linesInterval)
		if n := all.count(ResultObject); n != lines {
			t.Errorf("%d lines, want %d", n, lines)
		}
		m.Stop()
	})
}

// The calls of all controllers of a process wait until each index is complete, and at the start
// for controllers that may still join.
func TestCallsWaitForIndexes(t *testing.T) {
	backends := New(slog.New(slog.DiscardHandler), func(Result) {})
	a, b := &fakeController{kind: "A"}, &fakeController{kind: "B"}
	plain := backends.Join("process", a, Member{Name: "plain"})
	if plain.MayCall() {
		t.Error("calls before all controllers are known")
	}
	indexed := backends.Join("process", b, Member{Name: "indexed", Indexed: true})
	other := backends.Join("other", b, Member{Name: "other"})
	backends.SetKnown()
	if plain.MayCall() || indexed.MayCall() || !other.MayCall() {
		t.Error("calls before the index is complete, or none of another process")
	}
	indexed.SetIndexError(errors.New("500"))
	if err := plain.IndexError(); err == nil || err.Error() != "the index of indexed is not complete: 500" {
		t.Errorf("error %v", err)
	}
	complete := func(end func()) {
		t.Helper()
		a.got = nil
		end()
		if !slices.Equal(a.got, []string{"complete"}) || !plain.MayCall() || plain.IndexError() != nil {
			t.Errorf("got %v, may call: %t, %v", a.got, plain.MayCall(), plain.IndexError())
		}
	}
	complete(func() { indexed.SetComplete(true) })
	indexed.SetComplete(false)
	if plain.MayCall() {
		t.Error("calls while the index is not complete again")
	}
	complete(indexed.Leave)
}
