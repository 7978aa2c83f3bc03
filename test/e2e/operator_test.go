package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint"
)

// operatorName is what scripts call the program below.
const operatorName = "operator"

// The files between scripts and their operators, in the folder of the script.
const (
	callsFile          = "calls.log" // what was called, in order
	instructionsFolder = "orders"    // what a handler is to do, in a file of its name
)

// instructionsInterval is how often a handler that waits looks for other orders.
const instructionsInterval = 20 * time.Millisecond

// operatorSpec is the file that says which app an operator is.
type operatorSpec struct {
	Name       string
	APIVersion string
	Kind       string
	Definition string // the file of a CRD that it brings along
	Handlers   []handlerSpec
	// Compose has each object have a ConfigMap of its name, with its spec.value, after the
	// orders for "compose".
	Compose bool
	// Related has the handlers called with the reason Related for the objects that ConfigMaps
	// name in data.for.
	Related bool
	// Checks serves checks that follow the orders for "healthy" and "ready", and a metric.
	Checks bool
	// Validate reviews objects before they are stored, as the orders for "validate" say.
	Validate bool
}

type handlerSpec struct {
	Name              string
	FormerName        string
	Reasons           []setpoint.Reason
	Schedule          string // a cron expression
	Labels            string
	Field             string
	Backoff           string // between all attempts
	Retries           int
	Optional          bool
	KeepPreviousState bool
	// Daemon has it run for each object, and write into status.seen what spec.value is;
	// StopTimeout is how long a deleted object waits for it.
	Daemon      bool
	StopTimeout string
}

// runOperator is the program `operator REPLICA FILE [flags]`: an app made with the
// SDK, whose handlers do what the script tells them. Its log is REPLICA.log.
func runOperator() error {
	if len(os.Args) < 3 {
		return errors.New("usage: operator REPLICA FILE [flags]")
	}
	replica := os.Args[1]
	text, err := readExpanded(os.Args[2])
	if err != nil {
		return err
	}
	var spec operatorSpec
	if err := yaml.UnmarshalStrict(text, &spec); err != nil {
		return err
	}
	app, err := spec.app(replica)
	if err != nil {
		return err
	}
	if os.Stderr, err = openToAppend(replica + ".log"); err != nil {
		return err
	}
	os.Args = slices.Delete(os.Args, 1, 3)
	app.Main()
	return nil
}

// readExpanded reads a file of the script, with its variables filled in.
func readExpanded(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	return []byte(os.ExpandEnv(string(text))), err
}

func openToAppend(file string) (*os.File, error) {
	return os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

func (spec *operatorSpec) app(replica string) (*setpoint.App, error) {
	app := setpoint.New(spec.Name)
	if spec.Definition != "" {
		text, err := readExpanded(spec.Definition)
		if err != nil {
			return nil, err
		}
		app.InstallCRDs(text)
	}
	if spec.Compose {
		spec.compose(app)
	}
	if spec.Checks {
		addChecks(app)
	}
	if spec.Validate {
		objects := setpoint.For[setpoint.Unstructured](app, setpoint.Kind(spec.APIVersion, spec.Kind))
		objects.Validate("validate", func(_ context.Context, r *setpoint.Review[setpoint.Unstructured]) error {
			return execute(r.Object, strings.Fields(readInstructions("validate")))
		})
		return app, spec.handle(replica, objects)
	}
	if len(spec.Handlers) == 0 {
		return app, nil
	}
	objects := setpoint.For[setpoint.Unstructured](app, setpoint.Kind(spec.APIVersion, spec.Kind))
	if spec.Related {
		setpoint.Watches(objects, setpoint.For[corev1.ConfigMap](app), func(m *corev1.ConfigMap) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: m.Namespace, Name: m.Data["for"]}}
		})
	}
	return app, spec.handle(replica, objects)
}

// addChecks adds checks that do what the script tells them, and a metric that counts them.
func addChecks(app *setpoint.App) {
	checks := prometheus.NewCounter(prometheus.CounterOpts{Name: "operator_checks_total", Help: "Calls of checks."})
	app.Metrics().MustRegister(checks)
	follow := func(name string) setpoint.HealthCheckFunc {
		return func(context.Context) error {
			checks.Inc()
			return execute(nil, strings.Fields(readInstructions(name)))
		}
	}
	app.AddHealthCheck("orders", follow("healthy"))
	app.AddReadyCheck("orders", follow("ready"))
}

// handle registers the handlers.
func (spec *operatorSpec) handle(replica string, handlers *setpoint.Handlers[setpoint.Unstructured]) error {
	type handler = setpoint.Handler[setpoint.Unstructured]
	reasons := map[setpoint.Reason]func(*handler) *handler{
		setpoint.ReasonCreate:  (*handler).OnCreate,
		setpoint.ReasonUpdate:  (*handler).OnUpdate,
		setpoint.ReasonDelete:  (*handler).OnDelete,
		setpoint.ReasonResume:  (*handler).OnResume,
		setpoint.ReasonEvent:   (*handler).OnEvent,
		setpoint.ReasonRelated: (*handler).OnRelated,
	}
	for _, h := range spec.Handlers {
		options, err := h.options()
		if err != nil {
			return err
		}
		if h.Daemon {
			handlers.Daemon(h.Name, (&scriptedHandler{replica: replica, handler: h.Name}).runDaemon, options...)
			continue
		}
		added := handlers.Handle(h.Name, (&scriptedHandler{replica: replica, handler: h.Name}).run, options...)
		for _, reason := range h.Reasons {
			reasons[reason](added)
		}
		if h.Schedule != "" {
			added.Schedule(h.Schedule)
		}
	}
	return nil
}

// compose has the app say what children there should be, shown the ConfigMaps that
// are labelled as shared.
func (spec *operatorSpec) compose(app *setpoint.App) {
	parents := setpoint.Compose[setpoint.Unstructured](app, setpoint.Kind(spec.APIVersion, spec.Kind))
	parents.Owns(&corev1.ConfigMap{})
	parents.Customize(func(context.Context, *setpoint.Unstructured) ([]setpoint.RelatedRule, error) {
		shared := &metav1.LabelSelector{MatchLabels: map[string]string{"shared": "yes"}}
		return []setpoint.RelatedRule{{Object: &corev1.ConfigMap{}, Labels: shared}}, nil
	})
	parents.Sync(func(_ context.Context, f *setpoint.ComposeContext[setpoint.Unstructured]) error {
		if err := execute(f.Parent, strings.Fields(readInstructions("compose"))); err != nil {
			return err
		}
		var shared []corev1.ConfigMap
		f.Related(&shared)
		data := map[string]string{"value": value(f.Parent)}
		for _, one := range shared {
			data[one.Namespace] = one.Data["value"]
		}
		f.Apply(&corev1.ConfigMap{Data: data})
		return nil
	})
}

func (h *handlerSpec) options() ([]setpoint.HandlerOption, error) {
	var options []setpoint.HandlerOption
	if h.Labels != "" {
		options = append(options, setpoint.Labels(h.Labels))
	}
	if h.FormerName != "" {
		options = append(options, setpoint.FormerName(h.FormerName))
	}
	if h.Field != "" {
		options = append(options, setpoint.Field(h.Field))
	}
	if h.Backoff != "" {
		first, err := time.ParseDuration(h.Backoff)
		if err != nil {
			return nil, err
		}
		options = append(options, setpoint.Backoff(first, first))
	}
	if h.Retries > 0 {
		options = append(options, setpoint.Retries(h.Retries))
	}
	if h.StopTimeout != "" {
		timeout, err := time.ParseDuration(h.StopTimeout)
		if err != nil {
			return nil, err
		}
		options = append(options, setpoint.StopTimeout(timeout))
	}
	if h.Optional {
		options = append(options, setpoint.Optional())
	}
	if h.KeepPreviousState {
		options = append(options, setpoint.KeepPreviousState())
	}
	return options, nil
}

// scriptedHandler is a handler that follows a script's instructions.
type scriptedHandler struct{ replica, handler string }

// run writes the call down, and follows the handler's orders.
func (a *scriptedHandler) run(ctx context.Context, c *setpoint.Call[setpoint.Unstructured]) error {
	if err := a.logCall(c); err != nil {
		return err
	}
	for {
		instructions := strings.Fields(readInstructions(a.handler))
		if len(instructions) > 1 && instructions[0] == "fail" && strconv.Itoa(c.Attempt) >= instructions[1] {
			instructions = instructions[2:]
		}
		if len(instructions) == 0 || instructions[0] != "wait" {
			if err := execute(c.Object, instructions); err != nil {
				return err
			}
			return a.log("done %s %s", c.Object.GetName(), value(c.Object))
		}
		select {
		case <-time.After(instructionsInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runDaemon is a daemon: it writes down what it sees of its object, and follows its orders
// when it is to end.
func (a *scriptedHandler) runDaemon(ctx context.Context, c *setpoint.Call[setpoint.Unstructured]) error {
	for {
		if err := a.log("daemon %s %s", c.Object.GetName(), value(c.Object)); err != nil {
			return err
		}
		crash(readInstructions(a.handler))
		c.Object.Object["status"] = map[string]any{"seen": value(c.Object)}
		if err := c.Write(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return execute(c.Object, strings.Fields(readInstructions(a.handler)))
		case <-c.Changed():
		}
		if err := c.Refresh(); err != nil {
			return err
		}
	}
}

// logCall writes a call down, as in "one publish update w 2 was=1 attempt=0". What
// was is "-" where it is not known.
func (a *scriptedHandler) logCall(c *setpoint.Call[setpoint.Unstructured]) error {
	was := "-"
	if c.Old != nil {
		was = value(c.Old)
	}
	return a.log("%s %s %s was=%s attempt=%d", c.Reason, c.Object.GetName(), value(c.Object), was, c.Attempt)
}

// log adds a line to the calls, at once: several replicas write to them.
func (a *scriptedHandler) log(format string, args ...any) error {
	calls, err := openToAppend(callsFile)
	if err != nil {
		return err
	}
	defer calls.Close()
	_, err = fmt.Fprintf(calls, a.replica+" "+a.handler+" "+format+"\n", args...)
	return err
}

// value is an object's spec.value, in short.
func value(o *setpoint.Unstructured) string {
	spec, _ := o.Object["spec"].(map[string]any)
	text := fmt.Sprint(spec["value"])
	return text[:min(len(text), 10)]
}

// readInstructions returns a handler's instructions, "" if there are none.
func readInstructions(handler string) string {
	instructions, err := os.ReadFile(filepath.Join(instructionsFolder, handler))
	if err != nil {
		return ""
	}
	return string(instructions)
}

// execute does what README.md says of orders.
func execute(o *setpoint.Unstructured, instructions []string) error {
	if len(instructions) == 0 {
		return nil
	}
	crash(instructions[0])
	switch instructions[0] {
	case "hang":
		select {} // Whatever the context says.
	case "fail":
		return errors.New("told to fail")
	case "permanent":
		return setpoint.Permanent(errors.New("told to give up"))
	case "die":
		return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("still alive"))
	case "status":
		var status map[string]any
		if err := json.Unmarshal([]byte(instructions[1]), &status); err != nil {
			return err
		}
		o.Object["status"] = status
		return nil
	case "deny":
		return setpoint.Invalid("spec.value: told to deny")
	}
	return nil
}

// crash ends a goroutine as a defect of an author's code does, if that is ordered.
func crash(order string) {
	switch order {
	case "panic":
		panic("told to panic")
	case "exit":
		runtime.Goexit()
	}
}

// instructCommand HANDLER ORDERS…: what a handler of the script's operators is to do from
// now on; nothing but succeed, without orders.
func instructCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: tell HANDLER [wait|hang|fail [N [ORDERS…]]|permanent|die|panic|exit|deny|status JSON]")
	}
	folder := ts.MkAbs(instructionsFolder)
	ts.Check(os.MkdirAll(folder, 0o755))
	// A handler may be reading: it is to see the former orders, or these.
	draft := filepath.Join(folder, "."+args[0])
	ts.Check(os.WriteFile(draft, []byte(strings.Join(args[1:], " ")), 0o600))
	ts.Check(os.Rename(draft, filepath.Join(folder, args[0])))
}
