package setpoint

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// KindOption says more about the kind of object that a For or a Compose is about.
type KindOption interface{ ofKind(*controller) }

// HandlerOption says more about a handler. What is said at one of a handler's
// registrations holds for the handler as a whole.
type HandlerOption interface{ ofHandler(*settings) }

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
	handlerOption func(*settings)
)

func (o kindOption) ofKind(c *controller)     { o(c) }
func (o handlerOption) ofHandler(s *settings) { o(s) }

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

// Name names a handler or a review, or a controller where there are several of one
// kind. Handlers and reviews are otherwise named after their function, and a controller
// after its kind.
// What a handler has dealt with is recorded under its name: another name is
// another handler.
func Name(name string) Option {
	return anyOption{
		func(c *controller) { c.given = name },
		callOption{
			func(s *settings) { set(s, "Name", &s.name, name) },
			func(s *reviewSettings) { s.name = name },
		},
	}
}

// Labels selects objects by a label selector, such as "app=web,tier!=cache". Said
// of a kind, the API server applies it and sends nothing else; said of a review, or of
// the kind that it is of, it holds if the object matches as it is or as it was.
func Labels(selector string) Option {
	return anyOption{
		func(c *controller) { c.labels = selector },
		callOption{
			func(s *settings) { s.labelled(selector) },
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
			c.app.problem("Workers(%d): must be at least 1", n)
		}
	})
}

// Field limits what a handler watches to these fields, such as "spec.currency" or
// metadata.labels["example.com/tier"]: it is told of an update when one of them
// is not what it was. Without, it watches all of the object but its status and
// what others keep in its metadata.
func Field(paths ...string) HandlerOption {
	return handlerOption(func(s *settings) {
		for _, text := range paths {
			path, err := react.ParseField(text)
			if err != nil {
				s.problem("Field: %w", err)
				continue
			}
			s.watch(path)
		}
	})
}

// KeepOld has Call.Old and Call.Changes known also of what changed while the program
// did not run. What the handler watches, see Field, is kept for that in a
// ControllerRevision that belongs to the object, for those to read who may read
// ControllerRevisions: not of Secrets. Old has the watched fields alone then. It takes
// two more writes for each update.
func KeepOld() HandlerOption {
	return handlerOption(func(s *settings) { s.plan.KeepOld, s.only["KeepOld"] = true, hook.ReasonUpdate })
}

// Retries is how often a failing call is made again, after which the handler
// gives up until the object changes; 0 for never. Without, there is no limit.
func Retries(n int) HandlerOption {
	return handlerOption(func(s *settings) {
		s.notNegative("Retries", n < 0)
		retries := n
		if n == 0 {
			retries = -1 // Zero is no limit in the program.
		}
		set(s, "Retries", &s.plan.Retries, retries)
	})
}

// Within is how long a failing call is made again, after which the handler gives
// up until the object changes. Without, there is no limit.
func Within(d time.Duration) HandlerOption {
	return handlerOption(func(s *settings) { s.duration("Within", &s.plan.Within, d) })
}

// Timeout bounds one call: its context ends then. Without, there is no bound for a
// handler, and a review has 5 seconds. What is said of a review is in whole seconds, 1s
// to 30s.
func Timeout(d time.Duration) CallOption {
	return callOption{
		func(s *settings) { s.duration("Timeout", &s.plan.Timeout, d) },
		func(s *reviewSettings) { s.timeout(d) },
	}
}

// Backoff is how long a failing call waits until it is made again: the first time
// and, doubling from there, at most. 1s and 5m unless told otherwise.
func Backoff(first, most time.Duration) HandlerOption {
	return handlerOption(func(s *settings) {
		s.duration("Backoff", &s.plan.Backoff, first)
		s.duration("Backoff", &s.plan.MaxBackoff, most)
		if most < first {
			s.problem("Backoff(%s, %s): the longest is shorter than the first", first, most)
		}
	})
}

// StopTimeout is how long an object that is being deleted waits for a daemon to return
// once the daemon's context was cancelled; 30s without it. A daemon that has not returned
// by then is reported, by an event DaemonStuck and the log, and the object goes. Where the
// object only ceased to match, the daemon stays the only one of its kind for it, and the
// condition Handled says DaemonStuck until it returns.
func StopTimeout(d time.Duration) HandlerOption {
	return handlerOption(func(s *settings) {
		if d <= 0 {
			s.problem("StopTimeout(%s): must be greater than zero", d)
		}
		set(s, "StopTimeout", &s.plan.StopTimeout, d)
	})
}

// Optional lets an object go although its Delete handler gave up, or the program
// is not running: the object is not kept for it.
func Optional() HandlerOption {
	return handlerOption(func(s *settings) { s.plan.Optional, s.only["Optional"] = true, hook.ReasonDelete })
}

// Idle holds a timer back until no watched field has changed for so long.
func Idle(d time.Duration) HandlerOption {
	return handlerOption(func(s *settings) {
		s.duration("Idle", &s.plan.Idle, d)
		s.only["Idle"] = hook.ReasonTimer
	})
}

// Settle holds an update back until no watched field has changed for so long:
// several changes in a moment are told as one, and a change that is undone at once
// is none.
func Settle(d time.Duration) HandlerOption {
	return handlerOption(func(s *settings) {
		s.duration("Settle", &s.plan.Settle, d)
		s.only["Settle"] = hook.ReasonUpdate
	})
}

// Jitter spreads the moments of a timer by up to this much, by object.
func Jitter(d time.Duration) HandlerOption {
	return handlerOption(func(s *settings) {
		s.duration("Jitter", &s.plan.Jitter, d)
		s.only["Jitter"] = hook.ReasonTimer
	})
}
