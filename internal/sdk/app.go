// Package sdk implements package setpoint: the controllers of a program, what they declare and compile to, and how the
// program runs them. Its types have no type parameters: functions of authors come as functions of JSON.
package sdk

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// App is the controllers of one program and how they run.
type App struct {
	problems

	name        string
	crds        kinds.CRDs
	controllers []*Controller
	// starts and stops are called before and after the controllers.
	starts, stops []func(context.Context) error
	// healthChecks and readyChecks are those of the program, and metrics has its metrics.
	healthChecks, readyChecks checks
	metrics                   *serving.Metrics
	kinds                     func() *kinds.Kinds
	log                       *slog.Logger
	// calls are those of functions that have not returned.
	calls inFlight
	// dashboard is set by UseDashboard.
	dashboard dashboardWithFlags
	// required and bound are declared permissions.
	required, bound []rbacv1.PolicyRule
	// running reports whether the app runs against a cluster.
	running bool
	// indexLock is held while the indexes hold the objects of a test.
	indexLock sync.Mutex
	// code is that of the program.
	code call.Code
}

// maxName leaves room for the prefixes of finalizers, annotations and leases, whose names
// have at most 63 characters.
const maxName = 40

// NewApp returns an App.
func NewApp(name string) *App {
	a := &App{name: name, code: programCode(), metrics: serving.NewMetrics()}
	a.kinds = sync.OnceValue(func() *kinds.Kinds { return kinds.New(&a.crds, a.explicitKinds()) })
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 || len(name) > maxName {
		a.AddProblem("the app's name %q: must be lower-case letters, digits and dashes, at most %d of them", name, maxName)
	}
	return a
}

// InstallCRDs adds CustomResourceDefinitions as YAML or JSON; one text may hold several.
func (a *App) InstallCRDs(texts ...[]byte) {
	for _, text := range texts {
		a.add(a.crds.Add(text))
	}
}

// explicitKinds are those of the option Kind, by type.
func (a *App) explicitKinds() map[reflect.Type]kinds.Kind {
	all := map[reflect.Type]kinds.Kind{}
	for _, c := range a.controllers {
		if c.Kind != (kinds.Kind{}) && !kinds.IsAny(c.goType) {
			all[c.goType] = c.Kind
		}
	}
	return all
}

// OnStart runs a function before the controllers.
func (a *App) OnStart(fn func(context.Context) error) { a.starts = append(a.starts, fn) }

// OnStop runs a function after the controllers.
func (a *App) OnStop(fn func(context.Context) error) { a.stops = append(a.stops, fn) }

// AddHealthCheck adds a check to /healthz.
func (a *App) AddHealthCheck(name string, check func(context.Context) error) {
	a.problems = append(a.problems, a.healthChecks.add("AddHealthCheck", name, check)...)
}

// AddReadyCheck adds a check to /readyz.
func (a *App) AddReadyCheck(name string, check func(context.Context) error) {
	a.problems = append(a.problems, a.readyChecks.add("AddReadyCheck", name, check)...)
}

// Metrics returns what /metrics serves.
func (a *App) Metrics() *serving.Metrics { return a.metrics }

// dashboardWithFlags is a dashboard and its flags.
type dashboardWithFlags interface {
	manager.Dashboard

	RegisterFlags(set *flag.FlagSet)
}

// UseDashboard adds a dashboard; nil for none. It must be one although its parameter does not say so: package setpoint
// exports no type of this program's internals.
func (a *App) UseDashboard(d any) {
	served, is := d.(dashboardWithFlags)
	a.when(!is && d != nil, "UseDashboard: must be a *dashboard.Options, not a %T", d)
	a.dashboard = served
}

func (a *App) check() error {
	p := slices.Clone(a.problems)
	p.when(len(a.controllers) == 0, "the app has no controllers: use setpoint.For or setpoint.Compose")
	for _, c := range a.controllers {
		p = append(p, c.check()...)
	}
	a.deriveNames()
	named := map[string]bool{}
	for _, c := range a.controllers {
		p.when(named[c.name()], "two controllers are named %s: rename one with setpoint.Name", c.name())
		named[c.name()] = true
	}
	return errors.Join(p...)
}

// deriveNames renames controllers that write no metadata to objects when another
// controller has the same kind, so that Compose and Validate of one kind work without a
// Name.
func (a *App) deriveNames() {
	named := map[string]bool{}
	for _, c := range a.controllers {
		if !c.logic.stateless() {
			named[c.shortName()] = true
		}
	}
	for _, c := range a.controllers {
		if c.Name != "" || !c.logic.stateless() {
			continue
		}
		c.derivedName = ""
		kind := c.shortName()
		for i := 1; named[c.shortName()]; i++ {
			c.derivedName = kind + "-admission"
			if i > 1 {
				c.derivedName += "-" + strconv.Itoa(i)
			}
		}
		named[c.shortName()] = true
	}
}

// KindOf returns the kind of an object, from the object itself or from its type as in setpoint.For.
func (a *App) KindOf(o any) (kinds.Kind, error) {
	return a.kinds().Of(o)
}

func (a *App) logger() *slog.Logger {
	return cmp.Or(a.log, slog.Default())
}

// Implementation is embedded in setpoint.App, so that Of has access to the implementation although the App exports none.
type Implementation struct{ app *App }

// NewImplementation returns what to embed for an app.
func NewImplementation(app *App) Implementation { return Implementation{app} }

func (i Implementation) implementation() *App { return i.app }

// Of returns the implementation of a *setpoint.App. No other type has the method that the Implementation gives to it.
func Of(app interface{ implementation() *App }) *App { return app.implementation() }

// inFlight are the calls of functions that have not returned.
type inFlight struct{ calls sync.Map }

// inFlightCall is a call of one function for one object.
type inFlightCall struct {
	// role and function identify the function, such as "daemon" and "watch".
	role, function string
	object         func() string
}

func (w *inFlightCall) String() string { return w.role + " " + w.function + " of " + w.object() }

func (u *inFlight) track(w *inFlightCall) (end func()) {
	u.calls.Store(w, nil)
	return func() { u.calls.Delete(w) }
}

// names are sorted.
func (u *inFlight) names() []string {
	var all []string
	for w := range u.calls.Range {
		all = append(all, fmt.Sprint(w))
	}
	slices.Sort(all)
	return all
}

// programCode identifies this program, which is the same as long as the process runs.
func programCode() call.Code {
	digest := "program"
	if file, err := os.Executable(); err == nil {
		if info, err := os.Stat(file); err == nil {
			digest = fmt.Sprintf("%s %d %d", digest, info.Size(), info.ModTime().UnixNano())
		}
	}
	return call.Code{Digest: digest, Since: time.Now()}
}
