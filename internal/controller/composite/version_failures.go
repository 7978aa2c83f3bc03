package composite

import (
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// maxFlakes is how many failures in a row of a moved parent are no failure of the new version yet.
const maxFlakes = 2

// failures are those in a row that one version of the hooks has had with a parent.
type failures struct {
	attempts int
	terminal bool
	// elsewhere counts those that may be of another client or of the API server as well as of the version.
	elsewhere int
}

// persist reports whether retries do not help.
func (f failures) persist() bool { return f.attempts > maxFlakes || f.terminal }

// persistElsewhere reports whether retries do not help against those.
func (f failures) persistElsewhere() bool { return f.elsewhere > maxFlakes }

func (f *failures) add(outcome record.Outcome, err error) {
	switch {
	case outcome == record.Synced || outcome == record.Skipped:
		*f = failures{}
	case outcome != record.Failed:
	case isFailureOfLogic(err):
		f.attempts++
		f.terminal = hook.IsTerminal(err)
	case isFailureElsewhere(err):
		f.elsewhere++
	}
}

// versionFailures are the failures of the version that reconciled a parent last.
type versionFailures struct {
	version string
	failures
}

func (f *versionFailures) add(version string, outcome record.Outcome, err error) {
	if f.version != version {
		*f = versionFailures{version: version}
	}
	f.failures.add(outcome, err)
}

// before returns the failures of another version.
func (f *versionFailures) before(version string) failures {
	if f.version == version {
		return failures{}
	}
	return f.failures
}

// isFailureOfLogic reports whether a failure is of the version of the hooks as far as can be known: not of the
// parent, of another client, or of the API server.
func isFailureOfLogic(err error) bool {
	switch controller.ReasonOf(err) {
	case ReasonInvalidParent, ReasonDeletionsHeld:
		return false
	}
	return !isFailureElsewhere(err)
}

// isFailureElsewhere reports whether a failure may be of another client or of the API server. A version may cause
// it, too: it writes a field that another controller owns, or a child that a webhook fails for.
func isFailureElsewhere(err error) bool {
	switch controller.ReasonOf(err) {
	case ReasonFlapping, ReasonRolloutFailed:
		return true
	case controller.ReasonWriteFailed:
		return apply.Unreachable(err)
	}
	return false
}
