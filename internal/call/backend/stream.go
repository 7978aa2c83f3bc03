package backend

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

const (
	// maxLine limits a line. The longest message of an event is 1 KiB.
	maxLine = 16 << 10
	// silence is how long a connection without a line, even an empty one, counts as alive.
	silence = 30 * time.Second
	// maxLines is how many lines are read within linesInterval. The process waits for the rest.
	maxLines      = 1000
	linesInterval = time.Second
	// minDelay and maxDelay are those between connections.
	minDelay = 100 * time.Millisecond
	maxDelay = 15 * time.Second
	// lastingConnection is how long a connection lasts that is no failure.
	lastingConnection = 10 * time.Second
	// reportedAfter is how long a stream is without a connection before users see it.
	reportedAfter = 5 * time.Second
	// malformedInterval is the time between log lines about invalid lines.
	malformedInterval = 10 * time.Second
)

var (
	errSilent = fmt.Errorf("no line, not even an empty one, for %s", silence)
	errEnded  = errors.New("the process ended the stream")
)

// follow keeps the stream open until no member with an opener runs. Only a connection that lasts
// resets the delay: what connects without being a stream must not cause connections all the time.
func (p *backend) follow() {
	delay := minDelay
	for {
		m, ctx := p.nextOpener()
		if m == nil {
			return
		}
		start := time.Now()
		err := p.readStream(ctx, m)
		lasted := time.Since(start) >= lastingConnection
		if lasted {
			delay = minDelay
		}
		if ctx.Err() != nil {
			continue // The member stopped; another one may go on.
		}
		p.fail(err, lasted)
		wait(ctx, delay+time.Duration(rand.Int64N(int64(delay)/4)))
		delay = min(2*delay, maxDelay)
	}
}

// nextOpener returns a running member that opens the stream; nil ends the goroutine. The
// context ends when the member stops.
func (p *backend) nextOpener() (*Membership, context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.members, func(m *Membership) bool { return m.running && m.Open != nil })
	if p.endStream != nil {
		p.endStream()
	}
	if i < 0 {
		p.following, p.stream, p.endStream = false, nil, nil
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stream, p.endStream = p.members[i], cancel
	return p.stream, ctx
}

// fail records and logs why there is no connection, once for each message. A lasting connection
// before it ended the failure before that.
func (p *backend) fail(err error, lasted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lasted || p.failing.IsZero() {
		p.failing, p.logged = time.Now(), ""
	}
	if text := failure.OneLine(err); p.logged != text {
		p.logged = text
		p.backends.log.Warn("no notifications; reconnecting", "error", text)
	}
	p.err = err
	p.endTry()
}

// readStream opens the stream and reads it until it ends.
func (p *backend) readStream(ctx context.Context, m *Membership) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, err := m.Open(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	p.connect()
	defer p.disconnect()
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	err = p.readLines(ctx, bufio.NewReaderSize(body, maxLine), watchdog)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("notifications: %w", err)
}

// connect records a connection and notifies the members.
func (p *backend) connect() {
	p.mu.Lock()
	p.connections++
	p.isOpen, p.err = true, nil
	running := p.running()
	p.mu.Unlock()
	for _, m := range running {
		m.controller.Connected()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endTry()
}

func (p *backend) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isOpen = false
}

func (p *backend) running() []*Membership {
	return slices.DeleteFunc(slices.Clone(p.members), func(m *Membership) bool { return !m.running })
}

// readLines passes lines on until the stream ends.
func (p *backend) readLines(ctx context.Context, from *bufio.Reader, watchdog *time.Timer) error {
	start, count := time.Now(), 0
	for {
		line, tooLong, err := readLine(from)
		if err != nil {
			return err
		}
		watchdog.Reset(silence)
		count++
		if count > maxLines {
			wait(ctx, linesInterval-time.Since(start))
			start, count = time.Now(), 1
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case tooLong:
			p.reportMalformed(fmt.Errorf("line is longer than %d bytes", maxLine))
		case len(line) > 0:
			p.pass(line)
		}
	}
}

// readLine returns the next line. It skips the rest of one that is too long.
func readLine(from *bufio.Reader) (line []byte, tooLong bool, err error) {
	line, err = from.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		_, err = from.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) {
		err = errEnded // Without its end, the last line may not be whole.
	}
	return bytes.TrimSpace(line), tooLong, err
}

// pass passes a line on to the controllers. An event is sent by one of them: the one that
// handles the kind, else the first.
func (p *backend) pass(line []byte) {
	n, err := codec.DecodeNotification(line)
	if err != nil {
		p.reportMalformed(err)
		return
	}
	p.mu.Lock()
	running := p.running()
	p.mu.Unlock()
	handling := slices.DeleteFunc(slices.Clone(running), func(m *Membership) bool { return !m.controller.Handles(n.APIVersion, n.Kind) })
	switch {
	case n.IsEvent() && len(running) > 0:
		slices.Concat(handling, running)[0].controller.Publish(n)
		p.backends.observe(ResultEvent)
	case len(handling) == 0:
		p.backends.observe(ResultUnknown)
	default:
		for _, m := range handling {
			m.controller.Notified(n)
		}
		p.backends.observe(ResultObject)
	}
}

// reportMalformed counts a line that is ignored. It logs one of many.
func (p *backend) reportMalformed(err error) {
	p.backends.observe(ResultMalformed)
	p.malformed++
	if now := time.Now(); now.Sub(p.malformedLogged) >= malformedInterval {
		p.backends.log.Warn("invalid notification ignored", "error", failure.OneLine(err), "count", p.malformed)
		p.malformed, p.malformedLogged = 0, now
	}
}

// wait waits until the context ends.
func wait(ctx context.Context, delay time.Duration) {
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
}
