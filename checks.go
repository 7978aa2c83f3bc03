package setpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// HealthCheckFunc returns why a program is not healthy or not ready; nil if it is. It must
// be fast and respect its context, which ends after 5 seconds.
type HealthCheckFunc func(ctx context.Context) error

// AddHealthCheck adds a check to /healthz, which responds 503 with the error of the check:
// a kubelet then restarts the program. A program that is not healthy is not ready either.
func (a *App) AddHealthCheck(name string, check HealthCheckFunc) {
	a.addCheck("AddHealthCheck", &a.healthChecks, name, check)
}

// AddReadyCheck adds a check to /readyz, which responds 503 with the error of the check: no
// Service sends requests to the program then.
func (a *App) AddReadyCheck(name string, check HealthCheckFunc) {
	a.addCheck("AddReadyCheck", &a.readyChecks, name, check)
}

// checkTimeout is how long a probe waits for a check.
const checkTimeout = 5 * time.Second

// namedCheck is a check of a program. Concurrent probes share one call, so that a check that
// does not return is not called again and again.
type namedCheck struct {
	name  string
	check HealthCheckFunc
	calls singleflight.Group
}

func (a *App) addCheck(method string, to *[]*namedCheck, name string, check HealthCheckFunc) {
	if name == "" {
		a.addProblem("%s: the name is empty", method)
	}
	if check == nil {
		a.addProblem("%s(%q): the function is nil", method, name)
	}
	for _, other := range *to {
		if other.name == name {
			a.addProblem("%s(%q): another check has this name", method, name)
		}
	}
	*to = append(*to, &namedCheck{name: name, check: check})
}

// runChecks returns the errors of all checks.
func runChecks(checks []*namedCheck) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	results := make([]<-chan singleflight.Result, len(checks))
	for i, c := range checks {
		results[i] = c.start()
	}
	var problems []error
	for i, c := range checks {
		if err := await(ctx, results[i]); err != nil {
			problems = append(problems, fmt.Errorf("check %s: %w", c.name, err))
		}
	}
	return errors.Join(problems...)
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

// health is what the manager serves at /healthz.
func (a *App) health() ([]byte, error) { return nil, runChecks(a.healthChecks) }

// unready is what the manager serves at /readyz beside its own checks.
func (a *App) unready() error { return runChecks(a.readyChecks) }
