// Package operator runs controllers that a process declares: an operator in Python, which it
// starts, or one that runs already.
//
// It finds the interpreter, starts and stops the process, reads its declaration, and resolves
// the selectors of its controllers by discovery. How controllers work is in the packages below;
// what a process declares and how it is called says designs/0014-operators-in-python.md.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/served"
)

const (
	// declareInterval is how often the declaration is requested until there is one, and
	// waitingAfter when a wait is logged.
	declareInterval = 50 * time.Millisecond
	waitingAfter    = 10 * time.Second
	// checkInterval and checkTimeout are those of the health of the process.
	checkInterval = 2 * time.Second
	checkTimeout  = 10 * time.Second
	// maxHealthBytes limits what the process says of its health.
	maxHealthBytes = 64 << 10
)

// declareTimeout limits one request of the declaration.
const declareTimeout = 30 * time.Second

// Options configure an Operator. One of Python and Remote.URL is set.
type Options struct {
	// Python is started.
	Python *Python
	Remote Remote
	// Config is the client configuration of the cluster. Without one, Kinds are those that are served.
	Config *rest.Config
	Kinds  []served.Kind
	Log    *slog.Logger
}

// Operator is a process, and what it has declared.
type Operator struct {
	*Declaration

	log       *slog.Logger
	endpoint  *endpoint
	process   *pythonProcess // nil if it was not started here.
	discovery *discovery
	health    atomic.Pointer[health]
}

// Open starts or connects to the process, and waits for its declaration: without a limit,
// because importing files and startup handlers may take any time.
func Open(ctx context.Context, o Options) (*Operator, error) { return open(ctx, o, false) }

// Describe returns an operator that is not run. Files are imported, but no handler is called, and a process that does not
// respond is an error. Close it after use.
func Describe(ctx context.Context, o Options) (*Operator, error) { return open(ctx, o, true) }

func open(ctx context.Context, o Options, describe bool) (*Operator, error) {
	op := &Operator{log: o.Log}
	var err error
	if op.discovery, err = newDiscovery(o.Config, o.Kinds, o.Log); err != nil {
		return nil, err
	}
	if o.Python != nil {
		if op.process, err = o.Python.start(ctx, describe); err != nil {
			return nil, err
		}
		op.endpoint = socketEndpoint(op.process.folder.socketPath())
	} else if op.endpoint, err = o.Remote.open(); err != nil {
		return nil, err
	}
	if op.Declaration, err = op.awaitDeclaration(ctx, describe && o.Python == nil); err != nil {
		op.Close()
		return nil, err
	}
	return op, nil
}

// Compile compiles all controllers. The caller releases them.
func (o *Operator) Compile(ctx context.Context, env compile.Environment) ([]*compile.Compiled, error) {
	var all []*compile.Compiled
	for _, c := range o.goControllers() {
		compiled, err := c.Compile(ctx, env)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all = append(all, compiled)
	}
	return all, nil
}

// goControllers returns the declared controllers for the manager.
func (o *Operator) goControllers() []controllers.GoController {
	var all []controllers.GoController
	for i := range o.Controllers {
		declared := &o.Controllers[i]
		c := &controller{declaredController: declared, field: fmt.Sprintf("controllers[%d]", i), operator: o}
		own := controllers.GoController{Name: o.Name + "/" + declared.Metadata.Name, Compile: c.Compile}
		if declared.selects() {
			own.Changed = o.discovery.notify()
		}
		all = append(all, own)
	}
	return all
}

// Close stops the process, if it was started here.
func (o *Operator) Close() {
	if o.process != nil {
		o.process.Close()
	}
}

// Configure sets what the operator declares in the options of a manager. Its own namespaces
// count unless the user has given others.
func (o *Operator) Configure(options *manager.Options) {
	options.Name, options.GoControllers, options.Health = o.Name, o.goControllers(), o.lastHealth
	if len(options.Namespaces) == 0 {
		options.Namespaces = o.Namespaces
	}
	options.LeaderElection.Name = cmp.Or(options.LeaderElection.Name, o.Name)
}

// Run runs the controllers by a function until the context ends, and stops it when the process
// has ended. That is an error: what supervises Setpoint restarts both.
func (o *Operator) Run(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go o.discovery.Run(ctx)
	go o.watch(ctx, cancel)
	err := run(ctx)
	if lost, is := errors.AsType[*lostError](context.Cause(ctx)); is {
		return errors.Join(lost.error, err)
	}
	return err
}

// lostError is why the controllers cannot go on with this process.
type lostError struct{ error }

// watch cancels when the process has ended, or is another one.
func (o *Operator) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		o.checkHealth(ctx)
		if o.process == nil {
			if err := o.checkInstance(ctx); err != nil {
				cancel(&lostError{err})
			}
		}
	}, checkInterval)
	if o.process == nil {
		return
	}
	select {
	case <-o.process.ended:
		cancel(&lostError{o.process.err})
	case <-ctx.Done():
	}
}

// awaitDeclaration requests the declaration until there is one, the process has ended, or the
// context ends; once for a process that is not waited for.
func (o *Operator) awaitDeclaration(ctx context.Context, once bool) (*Declaration, error) {
	began, logged := time.Now(), false
	var ended <-chan struct{}
	if o.process != nil {
		ended = o.process.ended
	}
	for {
		data, err := o.endpoint.get(ctx, "/declaration", declareTimeout, maxDeclarationBytes)
		if err == nil {
			return decodeDeclaration(data)
		}
		if once {
			return nil, err
		}
		if !logged && time.Since(began) > waitingAfter {
			o.log.Info("waiting for the declaration of the operator", "operator", o.endpoint.String(), "problem", err.Error())
			logged = true
		}
		select {
		case <-ended:
			return nil, o.process.undeclared()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(declareInterval):
		}
	}
}

// checkInstance returns an error if another process responds than at the start. Those that do
// not respond may do so again.
func (o *Operator) checkInstance(ctx context.Context) error {
	data, err := o.endpoint.get(ctx, "/declaration", declareTimeout, maxDeclarationBytes)
	if err != nil {
		return nil //nolint:nilerr // Its health reports that.
	}
	now, err := decodeDeclaration(data)
	if err != nil {
		return err
	}
	if now.text != o.text {
		return fmt.Errorf("the operator at %s has restarted or declares other controllers: start Setpoint again", o.endpoint)
	}
	return nil
}

// health is what the process says of itself, and why it is unhealthy.
type health struct {
	body []byte
	err  error
}

func (o *Operator) lastHealth() ([]byte, error) {
	if h := o.health.Load(); h != nil {
		return h.body, h.err
	}
	return nil, nil
}

func (o *Operator) checkHealth(ctx context.Context) {
	if o.Health == "" {
		return
	}
	body, err := o.endpoint.get(ctx, o.Health, checkTimeout, maxHealthBytes)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		body, err = nil, errors.New("the operator does not respond: "+err.Error())
	}
	o.health.Store(&health{body, err})
}
