package test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/playback"
)

// TestTheClusterTookNoPart says so for stories that are not violated any more.
func TestTheClusterTookNoPart(t *testing.T) {
	for want, made := range map[string]playback.ClusterReplay{
		"Nothing was done on the cluster: the property is not violated in memory any more.": {},
		"Nothing was done on the cluster: not all steps can be made in memory.":             {Replayed: explore.Replayed{Stopped: "step 2 cannot happen any more"}},
		"The cluster did the same in all 3 steps.":                                          {Replayed: explore.Replayed{Violated: true}, Made: 3},
	} {
		if got := describeReplay(&made); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestUninterrupted keeps what Ctrl-C has not caused.
func TestUninterrupted(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	interrupted := fmt.Errorf("step 1: %w", &url.Error{Op: "Get", Err: context.Canceled})
	remaining := errors.New("remove the namespace: forbidden")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "<nil>"}, {interrupted, "<nil>"}, {remaining, remaining.Error()},
		{errors.Join(errors.Join(interrupted, interrupted), remaining), remaining.Error()},
	} {
		if got := fmt.Sprint(uninterrupted(ended, c.err)); got != c.want {
			t.Errorf("%v: %s", c.err, got)
		}
	}
	if uninterrupted(t.Context(), interrupted) == nil {
		t.Error("an error is lost")
	}
}
