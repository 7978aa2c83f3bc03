package setpoint

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// App is the controllers of one program and how they run.
//
// One goroutine sets up an App and runs it once. Run and Main report all problems of the
// setup at once.
type App struct {
	handle

	name        string
	crds        crdSet
	controllers []*controller
	starts      []LifecycleFunc
	stops       []LifecycleFunc
	// healthChecks and readyChecks are those of the program, and metrics has its metrics.
	healthChecks, readyChecks []*namedCheck
	metrics                   *serving.Metrics
	problems                  []error
	kinds                     func() (*kinds, error)
	log                       *slog.Logger
	// flags are the program's own flags, and command is what the arguments select.
	flags    *flag.FlagSet
	command  command
	inFlight inFlight
	// dashboard and flagsOfDashboard are set by UseDashboard.
	dashboard        manager.Dashboard
	flagsOfDashboard func(*flag.FlagSet)
	// required and bound are declared permissions.
	required, bound []rbacv1.PolicyRule
	// running reports whether the app runs against a cluster.
	running bool
	// indexLock is held while the indexes hold the objects of a test.
	indexLock sync.Mutex
	// code is that of the program.
	code call.Code
}

// handle gives package sdk access to the app.
type handle = sdk.Handle

// implementation is what package sdk has of an app.
type implementation struct{ *App }

// LifecycleFunc runs once, before or after the controllers.
type LifecycleFunc func(ctx context.Context) error

// maxName leaves room for the prefixes of finalizers, annotations and leases, whose names
// have at most 63 characters.
const maxName = 40

// New returns an App. The name is part of finalizers, annotations, field managers and the
// lease, so a renamed app is another app. It has lower-case letters, digits and dashes,
// at most 40.
func New(name string) *App {
	a := &App{name: name, code: programCode(), flags: flag.NewFlagSet(name, flag.ContinueOnError), metrics: serving.NewMetrics()}
	a.handle = sdk.NewHandle(implementation{a})
	a.kinds = sync.OnceValues(func() (*kinds, error) { return newKinds(a.crds.parsed, a.controllers) })
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 || len(name) > maxName {
		a.addProblem("the app's name %q: must be lower-case letters, digits and dashes, at most %d of them", name, maxName)
	}
	return a
}

// InstallCRDs adds CustomResourceDefinitions as YAML or JSON; one text may hold several.
// The app creates or upgrades them before it starts, and waits until they are
// established. It refuses an upgrade that could break stored objects, unless
// Options.AllowBreakingCRDs is set.
func (a *App) InstallCRDs(texts ...[]byte) {
	for _, text := range texts {
		if err := a.crds.add(text); err != nil {
			a.problems = append(a.problems, err)
		}
	}
}

// OnStart runs fn in every replica when the program starts, before it connects to the
// cluster. An error stops the program.
func (a *App) OnStart(fn LifecycleFunc) { a.starts = append(a.starts, fn) }

// OnStop runs fn after all controllers have stopped. Its context is not the cancelled
// one, and ends after 10 seconds.
func (a *App) OnStop(fn LifecycleFunc) { a.stops = append(a.stops, fn) }

func (a *App) addProblem(format string, args ...any) {
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
		if c.explicitName != "" || !c.logic.stateless() {
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

func (a implementation) Handler(name string) (hook.Handler, error) {
	return findFunction[hook.Handler](a.App, name)
}

func (a implementation) Hook(name string) (hook.Hook, error) {
	return findFunction[hook.Hook](a.App, name)
}

func (a implementation) Reviewer(name string) (hook.Admitter, error) {
	return findFunction[hook.Admitter](a.App, name)
}

// findFunction returns the only function of a type and a name.
func findFunction[H any](a *App, name string) (H, error) {
	var none H
	if err := a.check(); err != nil {
		return none, err
	}
	var found []H
	var names []string
	for _, c := range a.controllers {
		for _, f := range c.logic.functions() {
			h, is := f.function.(H)
			if !is {
				continue
			}
			names = append(names, c.shortName()+"/"+f.name)
			if f.name == c.unqualified(name) {
				found = append(found, h)
			}
		}
	}
	switch len(found) {
	case 0:
		return none, fmt.Errorf("the app %s has no function named %q, only %s", a.name, name, cmp.Or(strings.Join(names, ", "), "none"))
	case 1:
		return found[0], nil
	}
	return none, fmt.Errorf("the app %s has several functions named %q; use KIND/NAME", a.name, name)
}

func (a implementation) KindOf(o any) (apiVersion, kindName string, err error) {
	known, err := a.kinds()
	if err != nil {
		return "", "", err
	}
	k, err := known.of(o)
	return k.apiVersion, k.kind, err
}

func (a *App) logger() *slog.Logger {
	if a.log == nil {
		return slog.Default()
	}
	return a.log
}
