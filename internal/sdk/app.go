package sdk

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// App is the controllers of one program and how they run.
type App struct {
	name        string
	crds        kinds.CRDs
	controllers []*Controller
	// starts and stops are called before and after the controllers.
	starts, stops []func(context.Context) error
	// healthChecks and readyChecks are those of the program, and metrics has its metrics.
	healthChecks, readyChecks checks
	metrics                   *serving.Metrics
	problems                  []error
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
		if err := a.crds.Add(text); err != nil {
			a.problems = append(a.problems, err)
		}
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
	a.addProblems(a.healthChecks.add("AddHealthCheck", name, check))
}

// AddReadyCheck adds a check to /readyz.
func (a *App) AddReadyCheck(name string, check func(context.Context) error) {
	a.addProblems(a.readyChecks.add("AddReadyCheck", name, check))
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
	if !is && d != nil {
		a.AddProblem("UseDashboard: must be a *dashboard.Options, not a %T", d)
		return
	}
	a.dashboard = served
}

func (a *App) addProblems(problems []error) { a.problems = append(a.problems, problems...) }

// AddProblem adds what is wrong with the app, which Run reports.
func (a *App) AddProblem(format string, args ...any) {
	a.problems = append(a.problems, fmt.Errorf(format, args...))
}

// check returns all problems of the app.
func (a *App) check() error {
	problems := append([]error(nil), a.problems...)
	if len(a.controllers) == 0 {
		problems = append(problems, errors.New("the app has no controllers: use setpoint.For or setpoint.Compose"))
	}
	for _, c := range a.controllers {
		problems = append(problems, c.check()...)
	}
	a.deriveNames()
	named := map[string]bool{}
	for _, c := range a.controllers {
		name := c.name()
		if named[name] {
			problems = append(problems, fmt.Errorf("two controllers are named %s: rename one with setpoint.Name", name))
		}
		named[name] = true
	}
	return errors.Join(problems...)
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

func (a *App) logger() *slog.Logger {
	return cmp.Or(a.log, slog.Default())
}
