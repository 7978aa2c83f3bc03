package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// catchSignals returns a channel of termination signals, and a function to stop it.
func catchSignals() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// untilSignal returns a context that ends at the first signal. The second one exits.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals, stop := catchSignals()
	over := make(chan struct{})
	go func() {
		for range 2 {
			select {
			case <-over:
				return
			case <-signals:
			}
			if ctx.Err() != nil {
				abort()
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

// abort exits at once. Child processes are killed with this process.
func abort() { os.Exit(codeAborted) }
