package setpoint

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
)

// KindOption configures For and Compose.
type KindOption interface{ applyToKind(*controller) }

// HandlerOption configures a handler. An option of one registration applies to the
// handler as a whole.
type HandlerOption interface{ applyToHandler(*handlerSettings) }

// CallOption configures a handler or an admission webhook.
type CallOption interface {
	HandlerOption
	ReviewOption
}

// Option configures a kind, a handler or an admission webhook.
type Option interface {
	KindOption
	CallOption
}

// kindOption and handlerOption let plain functions be options.
type (
	// kindOption and handlerOption implement options by functions.
	kindOption    func(*controller)
	handlerOption func(*handlerSettings)
)

func (o kindOption) applyToKind(c *controller)            { o(c) }
func (o handlerOption) applyToHandler(s *handlerSettings) { o(s) }

// callOption is a CallOption, and anyOption an Option.
type (
	callOption struct {
		handlerOption
		reviewOption
	}
	anyOption struct {
		kindOption
		callOption
	}
)

// Kind sets the kind of the objects, such as Kind("apps/v1", "Deployment"). It is
// required for Unstructured, and for types that are not named after their kind.
func Kind(apiVersion, name string) KindOption {
	return kindOption(func(c *controller) { c.kind = kind{apiVersion, name} })
}

// Name names a controller, if the app has several for one kind. The default is its kind.
func Name(name string) KindOption {
	return kindOption(func(c *controller) { c.explicitName = name })
}

// Labels selects objects by a label selector, such as "app=web,tier!=cache". On a kind,
// the API server applies it. On an admission webhook, and on its kind, the old or the new
// object must match.
func Labels(selector string) Option {
	return anyOption{
		func(c *controller) { c.labels = selector },
		callOption{
			func(s *handlerSettings) { s.filterLabels(selector) },
			func(s *reviewSettings) { s.labels = append(s.labels, selector) },
		},
	}
}

// FieldSelector selects objects by a field selector, such as "status.phase=Running", as
// far as the API server supports it for the kind. The API server applies it.
func FieldSelector(selector string) KindOption {
	return kindOption(func(c *controller) { c.fields = selector })
}

// Namespaces limits a kind to objects in these namespaces, in addition to
// Options.Namespaces. Handlers write in these namespaces only.
func Namespaces(names ...string) KindOption {
	return kindOption(func(c *controller) { c.namespaces = append(c.namespaces, names...) })
}

// Workers is the maximum number of concurrent reconciles of the kind. The default is that
// of Options.
func Workers(n int) KindOption {
	return kindOption(func(c *controller) {
		c.workers = n
		if n < 1 {
			c.app.addProblem("Workers(%d): must be at least 1", n)
		}
	})
}

// Field limits the watched fields of a handler, such as "spec.currency" or
// metadata.labels["example.com/tier"]. The default is the whole object except its status
// and the metadata that the API server sets.
func Field(paths ...string) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		for _, text := range paths {
			path, err := loop.ParseField(text)
			if err != nil {
				s.addProblem("Field: %w", err)
				continue
			}
			s.watchField(path)
		}
	})
}

// KeepPreviousState sets Call.Old and Call.Changes also for changes made while the
// program was not running. Setpoint stores the watched fields in a ControllerRevision
// that the object owns, which users who may read ControllerRevisions can read. It does
// not support Secrets. Old then has the watched fields only. It needs two more writes for
// each update.
func KeepPreviousState() HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.spec.KeepPreviousState, s.optionReasons["KeepPreviousState"] = true, hook.ReasonUpdate
	})
}

// Retries is how often Setpoint retries a failed call before the handler gives up until
// the object changes; 0 means never. The default is no limit.
func Retries(n int) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.checkNotNegative("Retries", n < 0)
		retries := n
		if n == 0 {
			retries = -1 // Zero is no limit in the program.
		}
		setOnce(s, "Retries", &s.spec.Retries, retries)
	})
}

// RetryTimeout is how long Setpoint retries a failed call before the handler gives up
// until the object changes. The default is no limit.
func RetryTimeout(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.setDuration("RetryTimeout", &s.spec.RetryTimeout, d) })
}

// Timeout limits one call: its context ends then. The default is no limit for a handler,
// and 5 seconds for an admission webhook, which takes whole seconds from 1s to 30s.
func Timeout(d time.Duration) CallOption {
	return callOption{
		func(s *handlerSettings) { s.setDuration("Timeout", &s.spec.Timeout, d) },
		func(s *reviewSettings) { s.setTimeout(d) },
	}
}

// Backoff is the first delay before a retry, which doubles, and the longest one. The
// defaults are 1s and 5m.
func Backoff(first, most time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("Backoff", &s.spec.Backoff, first)
		s.setDuration("Backoff", &s.spec.MaxBackoff, most)
		if most < first {
			s.addProblem("Backoff(%s, %s): the maximum is shorter than the initial delay", first, most)
		}
	})
}

// StopTimeout is how long the deletion of an object waits for a daemon to return after
// its context was cancelled. The default is 30s. Then Setpoint reports DaemonStuck as an
// event and in the log, and releases the object. If the object only stopped to match, the
// condition Handled has the reason DaemonStuck until the daemon returns, and Setpoint
// starts no other one for the object.
func StopTimeout(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		if d <= 0 {
			s.addProblem("StopTimeout(%s): must be greater than zero", d)
		}
		setOnce(s, "StopTimeout", &s.spec.StopTimeout, d)
	})
}

// Optional does not hold the deletion of objects for OnDelete: there is no finalizer.
func Optional() HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.spec.Optional, s.optionReasons["Optional"] = true, hook.ReasonDelete })
}

// FormerName keeps the record of a renamed handler: objects that the handler has handled under
// the former name are not handled again.
func FormerName(name string) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		if err := validateName(name); err != nil {
			s.addProblem("FormerName(%q): %w", name, err)
		}
		s.spec.FormerNames = append(s.spec.FormerNames, name)
	})
}

// Idle delays a timer until no watched field has changed for this long.
func Idle(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("Idle", &s.spec.Idle, d)
		s.optionReasons["Idle"] = hook.ReasonTimer
	})
}

// Debounce delays an update until no watched field has changed for this long. Several
// changes within that time are one update, and a change that is undone within it is none.
func Debounce(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("Debounce", &s.spec.Debounce, d)
		s.optionReasons["Debounce"] = hook.ReasonUpdate
	})
}

// InitialDelay counts Every from when the program first sees the object, or the object begins to
// match, instead of its creation: the first call comes this long after, and the next ones an
// interval after the end of a call. 0 calls at once, also after each start of the program.
func InitialDelay(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("InitialDelay", &s.spec.InitialDelay, d)
		s.spec.FromFirstSeen = true
	})
}

// Jitter delays the timers of an object by up to this much.
func Jitter(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("Jitter", &s.spec.Jitter, d)
		s.optionReasons["Jitter"] = hook.ReasonTimer
	})
}
