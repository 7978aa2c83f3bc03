package sdk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// checkTimeout is how long a probe waits for a check.
const checkTimeout = 5 * time.Second

// namedCheck is a check of a program. Concurrent probes share one call, so that a check that
// does not return is not called again and again.
type namedCheck struct {
	name  string
	check func(context.Context) error
	calls singleflight.Group
}

// checks are those of one probe.
type checks []*namedCheck

// add returns what is wrong with a check. The method is for messages.
func (c *checks) add(method, name string, check func(context.Context) error) (p problems) {
	p.when(name == "", "%s: the name is empty", method)
	p.when(check == nil, "%s(%q): the function is nil", method, name)
	p.when(slices.ContainsFunc(*c, func(other *namedCheck) bool { return other.name == name }),
		"%s(%q): another check has this name", method, name)
	*c = append(*c, &namedCheck{name: name, check: check})
	return p
}

func (c checks) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	results := make([]<-chan singleflight.Result, len(c))
	for i, one := range c {
		results[i] = one.start()
	}
	var p problems
	for i, one := range c {
		err := await(ctx, results[i])
		p.when(err != nil, "check %s: %w", one.name, err)
	}
	return errors.Join(p...)
}

// start calls the check, unless a call is under way.
func (c *namedCheck) start() <-chan singleflight.Result {
	return c.calls.DoChan("", func() (any, error) {
		// The probe that starts the call may end before another one that shares it.
		ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
		defer cancel()
		return nil, failure.Recover("the check", func() error { return c.check(ctx) })
	})
}

func await(ctx context.Context, result <-chan singleflight.Result) error {
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return fmt.Errorf("did not return within %s", checkTimeout)
	}
}
