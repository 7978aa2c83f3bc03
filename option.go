package setpoint

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
)

// KindOption says more about the kind of object that a For or a Compose is about.
type KindOption interface{ applyToKind(*controller) }

// HandlerOption says more about a handler. What is said at one of a handler's
// registrations holds for the handler as a whole.
type HandlerOption interface{ applyToHandler(*handlerSettings) }

// CallOption goes with a handler and with a review.
type CallOption interface {
	HandlerOption
	ReviewOption
}

// Option goes with a kind, a handler and a review.
type Option interface {
	KindOption
	CallOption
}

// kindOption and handlerOption let plain functions be options.
type (
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

// Kind says which kind of object is meant, such as Kind("apps/v1", "Deployment"),
// where its Go type does not: for Unstructured, and for types that are not named
// after their kind.
func Kind(apiVersion, name string) KindOption {
	return kindOption(func(c *controller) { c.kind = kind{apiVersion, name} })
}

// Name names a controller, if the app has several for one kind. The default is its kind.
func Name(name string) KindOption {
	return kindOption(func(c *controller) { c.explicitName = name })
}

// Labels selects objects by a label selector, such as "app=web,tier!=cache". Said
// of a kind, the API server applies it and sends nothing else; said of a review, or of
// the kind that it is of, it holds if the object matches as it is or as it was.
func Labels(selector string) Option {
	return anyOption{
		func(c *controller) { c.labels = selector },
		callOption{
			func(s *handlerSettings) { s.filterLabels(selector) },
			func(s *reviewSettings) { s.labels = append(s.labels, selector) },
		},
	}
}

// FieldSelector selects objects by a field selector, such as
// "status.phase=Running", as far as the API server supports it for the kind. The
// server applies it and sends nothing else.
func FieldSelector(selector string) KindOption {
	return kindOption(func(c *controller) { c.fields = selector })
}

// Namespaces limits a kind to the objects in these namespaces, beside what
// Options.Namespaces says of all. Nothing is written outside of them.
func Namespaces(names ...string) KindOption {
	return kindOption(func(c *controller) { c.namespaces = append(c.namespaces, names...) })
}

// Workers is how many objects of the kind are worked on at once; as Options say
// if it is not given.
func Workers(n int) KindOption {
	return kindOption(func(c *controller) {
		c.workers = n
		if n < 1 {
			c.app.addProblem("Workers(%d): must be at least 1", n)
		}
	})
}

// Field limits what a handler watches to these fields, such as "spec.currency" or
// metadata.labels["example.com/tier"]: it is told of an update when one of them
// is not what it was. Without, it watches all of the object but its status and
// what others keep in its metadata.
func Field(paths ...string) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		for _, text := range paths {
			path, err := handle.ParseField(text)
			if err != nil {
				s.addProblem("Field: %w", err)
				continue
			}
			s.watchField(path)
		}
	})
}

// KeepPreviousState has Call.Old and Call.Changes known also of what changed while the program
// did not run. What the handler watches, see Field, is kept for that in a
// ControllerRevision that belongs to the object, for those to read who may read
// ControllerRevisions: not of Secrets. Old has the watched fields alone then. It takes
// two more writes for each update.
func KeepPreviousState() HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.spec.KeepPreviousState, s.optionReasons["KeepPreviousState"] = true, hook.ReasonUpdate
	})
}

// Retries is how often a failing call is made again, after which the handler
// gives up until the object changes; 0 for never. Without, there is no limit.
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

// RetryTimeout is how long a failing call is made again, after which the handler gives
// up until the object changes. Without, there is no limit.
func RetryTimeout(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.setDuration("RetryTimeout", &s.spec.RetryTimeout, d) })
}

// Timeout bounds one call: its context ends then. Without, there is no bound for a
// handler, and a review has 5 seconds. What is said of a review is in whole seconds, 1s
// to 30s.
func Timeout(d time.Duration) CallOption {
	return callOption{
		func(s *handlerSettings) { s.setDuration("Timeout", &s.spec.Timeout, d) },
		func(s *reviewSettings) { s.setTimeout(d) },
	}
}

// Backoff is how long a failing call waits until it is made again: the first time
// and, doubling from there, at most. 1s and 5m unless told otherwise.
func Backoff(first, most time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("Backoff", &s.spec.Backoff, first)
		s.setDuration("Backoff", &s.spec.MaxBackoff, most)
		if most < first {
			s.addProblem("Backoff(%s, %s): the longest is shorter than the first", first, most)
		}
	})
}

// StopTimeout is how long an object that is being deleted waits for a daemon to return
// once the daemon's context was cancelled; 30s without it. A daemon that has not returned
// by then is reported, by an event DaemonStuck and the log, and the object goes. Where the
// object only ceased to match, the daemon stays the only one of its kind for it, and the
// condition Handled says DaemonStuck until it returns.
func StopTimeout(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		if d <= 0 {
			s.addProblem("StopTimeout(%s): must be greater than zero", d)
		}
		setOnce(s, "StopTimeout", &s.spec.StopTimeout, d)
	})
}

// Optional lets an object go although its Delete handler gave up, or the program
// is not running: the object is not kept for it.
func Optional() HandlerOption {
	return handlerOption(func(s *handlerSettings) { s.spec.Optional, s.optionReasons["Optional"] = true, hook.ReasonDelete })
}

// Idle holds a timer back until no watched field has changed for so long.
func Idle(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("Idle", &s.spec.Idle, d)
		s.optionReasons["Idle"] = hook.ReasonTimer
	})
}

// Debounce holds an update back until no watched field has changed for so long:
// several changes in a moment are told as one, and a change that is undone at once
// is none.
func Debounce(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("Debounce", &s.spec.Debounce, d)
		s.optionReasons["Debounce"] = hook.ReasonUpdate
	})
}

// Jitter spreads the moments of a timer by up to this much, by object.
func Jitter(d time.Duration) HandlerOption {
	return handlerOption(func(s *handlerSettings) {
		s.setDuration("Jitter", &s.spec.Jitter, d)
		s.optionReasons["Jitter"] = hook.ReasonTimer
	})
}
