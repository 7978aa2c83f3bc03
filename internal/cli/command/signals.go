package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how long further signals count as the first one: `timeout`, shells and supervisors send
// one to a process and one to its group.
const sameSignal = time.Second

// CatchSignals returns a channel of termination signals, and a function to stop it.
func CatchSignals() (<-chan os.Signal, func()) {
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signals := make(chan os.Signal, 2)
	go passDistinct(caught, signals)
	return signals, func() {
		signal.Stop(caught)
		close(caught) // Stop guarantees that none is sent any more.
	}
}

// passDistinct passes signals on, but not those that count as the first.
func passDistinct(caught <-chan os.Signal, signals chan<- os.Signal) {
	var first time.Time
	for each := range caught {
		if !first.IsZero() && time.Since(first) < sameSignal {
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		select {
		case signals <- each:
		default: // Two are enough to abort.
		}
	}
}

// UntilSignal returns a context that ends at the first signal. The second one exits.
func UntilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals, stop := CatchSignals()
	over := make(chan struct{})
	go func() {
		for range 2 {
			select {
			case <-over:
				return
			case <-signals:
			}
			if ctx.Err() != nil {
				Abort()
			}
			cancel()
		}
	}()
	return ctx, func() {
		stop()
		close(over)
		cancel()
	}
}

// Abort exits at once. Child processes are killed with this process.
func Abort() { os.Exit(Aborted) }

// Pause waits and reports whether ctx is still active.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
