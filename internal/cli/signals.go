package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// catchSignals passes on what asks this process to end.
func catchSignals() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// untilSignal is done at the first signal; the second one ends the process.
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

// abort ends the process at once. What it has started is tied to its life.
func abort() { os.Exit(codeAborted) }
