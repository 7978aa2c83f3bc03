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
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// App is one program's controllers: what they are, and how they are run.
//
// An App is put together by one goroutine and then run once. What is wrong with
// it is told by Run and Main, all at once.
type App struct {
	name          string
	crds          crdSet
	registrations []registration
	starts        []LifecycleFunc
	stops         []LifecycleFunc
	problems      []error
	kinds         func() (*kinds, error)
	log           *slog.Logger
	// flags are the program's own, and command what its arguments ask for.
	flags    *flag.FlagSet
	command  command
	inFlight inFlight
	// dashboard is set by UseDashboard.
	dashboard Dashboard
	// required and bound are permissions that were declared.
	required, bound []rbacv1.PolicyRule
	// running says that there is a cluster.
	running bool
	// indexLock is held while the indexes hold what a test has thought of.
	indexLock sync.Mutex
}

// LifecycleFunc is something done once, before or after everything else.
type LifecycleFunc func(ctx context.Context) error

// maxName leaves room for what names are made of: a finalizer's, an annotation's
// and a lease's are at most 63 characters long.
const maxName = 40

// New begins an App. Its name is part of the names of what it leaves behind in a
// cluster (a finalizer, an annotation, field managers, a lease), so that another
// name means another program. It is made of lower-case letters, digits and
// dashes, 40 at most.
func New(name string) *App {
	a := &App{name: name, flags: flag.NewFlagSet(name, flag.ContinueOnError)}
	a.kinds = sync.OnceValues(func() (*kinds, error) { return newKinds(a.crds.parsed, a.registrations) })
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 || len(name) > maxName {
		a.addProblem("the app's name %q: must be lower-case letters, digits and dashes, at most %d of them", name, maxName)
	}
	return a
}

// InstallCRDs gives the app CustomResourceDefinitions, as YAML or JSON; a text may
// hold several. They are created or upgraded when the app starts, before anything
// else, and waited for. An upgrade that could break objects that are stored is
// refused unless Options.AllowBreakingCRDs allows it.
func (a *App) InstallCRDs(texts ...[]byte) {
	for _, text := range texts {
		if err := a.crds.add(text); err != nil {
			a.problems = append(a.problems, err)
		}
	}
}

// OnStart has something done when the program starts, in every replica, before it
// looks at the cluster. An error ends the program.
func (a *App) OnStart(fn LifecycleFunc) { a.starts = append(a.starts, fn) }

// OnStop has something done when everything has come to rest. Its context is not
// the one that has ended, and has 10 seconds.
func (a *App) OnStop(fn LifecycleFunc) { a.stops = append(a.stops, fn) }

// addProblem notes what is wrong with the app.
func (a *App) addProblem(format string, args ...any) {
	a.problems = append(a.problems, fmt.Errorf(format, args...))
}

// registration is what a For or a Compose makes: controllers of one kind of object.
type registration interface { //nolint:interfacebloat // all that a For and a Compose have in common, in one list
	// check says what is wrong, once all has been said.
	check() []error
	// controller is what it is called and about.
	controller() *controller
	// findHandler, findHook and findReview are what has a name, or nil.
	findHandler(name string) hook.Handler
	findHook(name string) hook.Hook
	findReview(name string) hook.Admitter
	// functionNames are all that have one.
	functionNames() []string
	// hasIndex says whether it has indexes of a kind. filled waits until they are, and
	// fill has them hold objects until release is called.
	hasIndex(of object.GroupKind) bool
	waitForIndexes(ctx context.Context) error
	fillIndexes(objects []*object.Object) (release func())
	// stateless says that it keeps nothing on objects, whose name it would go by.
	stateless() bool
	// goController is how the host runs it.
	goController() manager.GoController
}

// check is all that is wrong with the app.
func (a *App) check() error {
	problems := append([]error(nil), a.problems...)
	if len(a.registrations) == 0 {
		problems = append(problems, errors.New("there is nothing to run: say setpoint.For or setpoint.Compose"))
	}
	for _, p := range a.registrations {
		problems = append(problems, p.check()...)
	}
	a.deriveNames()
	named := map[string]bool{}
	for _, p := range a.registrations {
		name := p.controller().name()
		if named[name] {
			problems = append(problems, fmt.Errorf("two controllers are named %s: rename one with setpoint.Name", name))
		}
		named[name] = true
	}
	return errors.Join(problems...)
}

// deriveNames names the parts that leave nothing behind on objects, those that have
// reviews and indexes alone, where another part is about the same kind: Compose of a kind
// and Validate of it go together as they are.
func (a *App) deriveNames() {
	named := map[string]bool{}
	for _, p := range a.registrations {
		if !p.stateless() {
			named[p.controller().shortName()] = true
		}
	}
	for _, p := range a.registrations {
		c := p.controller()
		if c.explicitName != "" || !p.stateless() {
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

// Handler is one handler of the app by its name, such as "publish"; or, where
// several kinds have one of that name, "exchangerate/publish". It is meant for
// tests, see the package setpointtest. An error says what is wrong with the app,
// or that there is no such handler.
func (a *App) Handler(name string) (hook.Handler, error) {
	return findFunction(a, name, func(p registration, name string) (hook.Handler, bool) {
		h := p.findHandler(name)
		return h, h != nil
	})
}

// Hook is Handler for the functions of Compose: "sync" and "finalize", or
// "team/sync" where there are several kinds.
func (a *App) Hook(name string) (hook.Hook, error) {
	return findFunction(a, name, func(p registration, name string) (hook.Hook, bool) {
		h := p.findHook(name)
		return h, h != nil
	})
}

// findFunction finds the one thing of a name in an app that is well.
func findFunction[H any](a *App, name string, in func(p registration, name string) (H, bool)) (H, error) {
	var none H
	if err := a.check(); err != nil {
		return none, err
	}
	var found []H
	for _, p := range a.registrations {
		if h, ok := in(p, p.controller().unqualified(name)); ok {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return none, fmt.Errorf("the app %s has nothing called %q; it has %s", a.name, name, cmp.Or(strings.Join(functionNamesOf(a, in), ", "), "none"))
	case 1:
		return found[0], nil
	}
	return none, fmt.Errorf("the app %s has several called %q; put the name of the kind and a slash before it", a.name, name)
}

// functionNamesOf are the names by which search finds something.
func functionNamesOf[H any](a *App, in func(p registration, name string) (H, bool)) []string {
	var all []string
	for _, p := range a.registrations {
		for _, name := range p.functionNames() {
			if _, ok := in(p, name); ok {
				all = append(all, p.controller().shortName()+"/"+name)
			}
		}
	}
	return all
}

// KindOf is the kind of an object as the app knows it: as the object says itself,
// or by its type as For has it.
func (a *App) KindOf(o any) (apiVersion, kindName string, err error) {
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
