package command

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestSignalsAtOnceAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caught, signals := make(chan os.Signal), make(chan os.Signal, 2)
		go passDistinct(caught, signals)
		passed := func(sent os.Signal) int {
			caught <- sent
			synctest.Wait()
			return len(signals)
		}
		if n := passed(syscall.SIGTERM); n != 1 {
			t.Errorf("the first: %d passed", n)
		}
		for range 3 {
			if n := passed(syscall.SIGTERM); n != 1 {
				t.Errorf("at once: %d passed", n)
			}
			<-time.After(sameSignal / 4)
		}
		<-time.After(sameSignal / 4)
		for range 3 {
			if n := passed(syscall.SIGINT); n != 2 {
				t.Errorf("later: %d passed", n)
			}
		}
		close(caught)
	})
}
