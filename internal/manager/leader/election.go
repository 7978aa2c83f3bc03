package leader

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
)

// Defaults of Election.
const (
	DefaultLeaseDuration = 10 * time.Second
	DefaultRenewDeadline = 7 * time.Second
	DefaultRetryPeriod   = time.Second
)

// Election configures which of several replicas leads. The others stand by: they keep their caches synced, and call and
// write nothing.
//
// The durations bound a failover. After a clean stop the next leader takes over within 2.2 RetryPeriods, after a crash
// within a LeaseDuration and 4.4 RetryPeriods: by default 2.2 and 14.4 seconds.
type Election struct {
	// Enabled elects one leader; otherwise each replica leads.
	Enabled bool
	// Name and Namespace of the Lease. The default Namespace is that of Setpoint, the default Name is "setpoint", with
	// a hash of the Selector if there is one, since replicas with different selectors run different controllers.
	Name, Namespace string
	// Identity is the holder identity; by default the host name and a random suffix.
	Identity string
	// LeaseDuration is how long a candidate waits for a leader that does not renew. It is in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader keeps trying to renew. The rest of LeaseDuration is its time to stop.
	RenewDeadline time.Duration
	// RetryPeriod is the interval of renewals and of candidates' checks.
	RetryPeriod time.Duration
}

// WithDefaults sets the defaults for replicas in a namespace with a selector of controllers.
func (e Election) WithDefaults(namespace, selector string) Election {
	e.Name = cmp.Or(e.Name, leaseName(selector))
	e.Namespace = cmp.Or(e.Namespace, namespace)
	e.LeaseDuration = cmp.Or(e.LeaseDuration, DefaultLeaseDuration)
	e.RenewDeadline = cmp.Or(e.RenewDeadline, DefaultRenewDeadline)
	e.RetryPeriod = cmp.Or(e.RetryPeriod, DefaultRetryPeriod)
	if e.Identity == "" {
		machine, _ := os.Hostname() // The random suffix is enough.
		e.Identity = machine + "_" + string(uuid.NewUUID())
	}
	return e
}

func leaseName(selector string) string {
	if parsed, err := labels.Parse(selector); err == nil {
		selector = parsed.String()
	}
	if selector == "" {
		return "setpoint"
	}
	return "setpoint-" + hash(selector)
}

func hash(text string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text)) // A hash never fails.
	return fmt.Sprintf("%08x", sum.Sum32())
}

// Check validates the durations.
func (e Election) Check() error {
	switch {
	case !e.Enabled:
		return nil
	case e.LeaseDuration < time.Second || e.LeaseDuration%time.Second != 0:
		return fmt.Errorf("lease duration %s must be whole seconds", e.LeaseDuration)
	case e.Grace() <= 0:
		return fmt.Errorf("lease duration %s must be longer than the renew deadline %s and the retry period %s together: a leader needs "+
			"time to stop",
			e.LeaseDuration, e.RenewDeadline, e.RetryPeriod)
	case e.RetryPeriod <= 0 || float64(e.RenewDeadline) <= leaderelection.JitterFactor*float64(e.RetryPeriod):
		return fmt.Errorf("renew deadline %s must be longer than %.1f retry periods of %s",
			e.RenewDeadline, leaderelection.JitterFactor, e.RetryPeriod)
	}
	return nil
}

// Grace is the time left to stop after RenewDeadline, before another replica may lead. The
// last attempt to renew began a RetryPeriod after the last success.
func (e Election) Grace() time.Duration {
	return e.LeaseDuration - e.RenewDeadline - e.RetryPeriod
}
