package apptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint"
)

// appStopTimeout is how long an app may take to stop; its OnStop may take 10 seconds.
const appStopTimeout = 15 * time.Second

// Option says how an app is run: it changes the options with which it would be run
// in the test's namespace alone, with its log in the output of the test.
type Option = func(*setpoint.Options)

// AllNamespaces has an app work in all namespaces: for one that names some itself, or
// that writes to others than its objects'. While it is at work, no other test may
// have an app at work, since both would deal with the same objects: such tests are
// not parallel. Subtests may share one.
func AllNamespaces(o *setpoint.Options) { o.Namespaces = nil }

// Start has an app work, in the test's namespace unless an option says otherwise.
// It returns when the app is ready: its CRDs are served, and its caches filled. What
// is wrong with the app fails the test, as does its end before the test's.
//
// Objects that live in no namespace are for every app that handles their kind: tests
// with such are not parallel either.
//
// An app is run once: to see what a restart does, Stop it and Start another of the
// same making. Several may be at work at once, such as two replicas.
func (c *Cluster) Start(app *setpoint.App, options ...Option) (stop func()) {
	c.t.Helper()
	r := &appRun{ready: make(chan struct{}), ended: make(chan struct{}), log: &output{to: c.t.Output()}}
	o := c.options(r, options)
	if err := c.tenants.acquire(c.shared, len(o.Namespaces) == 0); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	r.cancel = cancel
	c.mu.Lock()
	c.app, c.runs, c.allNamespaces = app, append(c.runs, r), c.allNamespaces || len(o.Namespaces) == 0
	c.mu.Unlock()
	stop = func() { c.t.Helper(); c.stop(r) }
	c.t.Cleanup(stop)
	go c.run(ctx, r, func(ctx context.Context) error { return app.Run(ctx, o) })
	if err := c.awaitReady(r); err != nil {
		c.t.Fatalf("start the app: %v", err)
	}
	return stop
}

// options returns the options of a run.
func (c *Cluster) options(r *appRun, options []Option) setpoint.Options {
	o := setpoint.Options{
		Kubeconfig: c.client.kubeconfig, Namespaces: []string{c.namespace}, Namespace: c.namespace,
		Log: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	for _, option := range options {
		option(&o)
	}
	external := o.Ready
	o.Ready = func() {
		close(r.ready)
		if external != nil {
			external()
		}
	}
	return o
}

// run runs an app until it stops. An app that stops by itself fails the test.
func (c *Cluster) run(ctx context.Context, r *appRun, work func(context.Context) error) {
	defer close(r.ended)
	err := work(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	r.err = err
	if !r.errReported && r.isReady() {
		r.exitReported = true
		c.t.Errorf("the app has ended before the test: %v", cause(err))
	}
}

// awaitReady waits until an app is at work.
func (c *Cluster) awaitReady(r *appRun) error {
	ctx, cancel := c.context()
	defer cancel()
	select {
	case <-r.ready:
		return nil
	case <-r.ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		r.exitReported = true
		return cause(r.err)
	case <-ctx.Done():
		return fmt.Errorf("it is not ready after %v: its log says what it waits for", c.waitTimeout)
	}
}

// Stop stops all apps that were started here, and returns when they have come to
// rest. An error of theirs fails the test.
func (c *Cluster) Stop() {
	c.t.Helper()
	c.mu.Lock()
	runs := slices.Clone(c.runs)
	c.mu.Unlock()
	for _, r := range slices.Backward(runs) {
		c.stop(r)
	}
}

func (c *Cluster) stop(r *appRun) {
	c.t.Helper()
	c.stopWithin(r, appStopTimeout)
}

func (c *Cluster) stopWithin(r *appRun, limit time.Duration) {
	c.t.Helper()
	c.mu.Lock()
	again := r.errReported
	r.errReported = true
	c.mu.Unlock()
	if again {
		return
	}
	defer r.log.close()
	r.cancel()
	select {
	case <-r.ended:
		if r.err != nil && !r.exitReported {
			c.t.Errorf("stop the app: %v", r.err)
		}
	case <-time.After(limit):
		c.t.Errorf("the app has not stopped after %v: a handler or a daemon ignores that its context is done. Goroutines:\n%s",
			limit, goroutines())
	}
}

// goroutines returns the stacks of all goroutines.
func goroutines() string {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	return text.String()
}

// failed returns why an app has stopped by itself; nil if none has.
func (c *Cluster) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.runs {
		select {
		case <-r.ended:
			if !r.errReported {
				return fmt.Errorf("the app has ended: %w", cause(r.err))
			}
		default:
		}
	}
	return nil
}

// cause is why an app has ended.
func cause(err error) error {
	if err == nil {
		return errors.New("it stopped by itself, without an error")
	}
	return err
}

// interval is how often it is looked whether something has happened.
const interval = 20 * time.Millisecond

// poll tries something until it is final. The error is the last one: with how long
// it was tried, or why it is in vain.
func (c *Cluster) poll(try func() (final bool, err error)) error {
	began := time.Now()
	ctx, cancel := c.context()
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		final, err := try()
		if final {
			return err
		}
		if ended := c.failed(); ended != nil {
			return fmt.Errorf("%w (%w)", err, ended)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("still not so after %v: %w", time.Since(began).Round(time.Millisecond), err)
		}
	}
}
