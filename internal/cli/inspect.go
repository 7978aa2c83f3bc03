package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/reach"
	"github.com/setpoint-dev/setpoint/internal/reach/pods"
)

// readFlags are what the commands can be told that read running processes.
type readFlags struct {
	cluster   clusterFlags
	namespace string
	process   string
	// pod is where to look instead of where processes are found; home is where the
	// Leases are by which they are.
	pod, home string
	watch     bool
	output    *choice
	// bare says that tables have no head.
	bare bool
}

// Values of --output.
const (
	asTable = "table"
	asText  = "text"
	wide    = "wide"
	asJSON  = "json"
	asYAML  = "yaml"
	asName  = "name"
)

// reachHelp is what the commands say of how they find processes.
const reachHelp = `It is read from the processes that run controllers: those that 'setpoint dev' has
started, by the kubeconfig that it wrote, or those in the pods of a cluster, by
the Leases that they hold. A pod is reached by port-forward, for which you need the
right to create pods/portforward in its namespace, and it asks for the token in the
Secret setpoint-inspect there, for which you need the right to get that. Both together are
for administrators: another client can read with them all that the process
sees, of whatever kind, but the values of Secrets.

The commands themselves show only what you may read. What was done about an object
takes your right to get it; what objects hold, in requests, replies and changes,
and children, the right to get those of their kind in the namespace; a list of objects the right to list
them; and what a controller fails with the right to get the object that
declares it, or else to list all objects it handles and writes. What is left out
is said.

Exit codes: 0 shown, 1 failed, 2 wrong usage.`

func (f *readFlags) register(c *cobra.Command) {
	f.registerReach(c)
	set := c.Flags()
	set.BoolVarP(&f.watch, "watch", "w", false, "go on, and show what changes")
	f.output.flag(c, "output", "o", "how to write it")
}

// registerReach adds the flags by which processes are found.
func (f *readFlags) registerReach(c *cobra.Command) {
	set := c.Flags()
	set.SortFlags = false
	f.cluster.register(c)
	set.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of the objects; that of the context if empty")
	set.StringVar(&f.process, "process", "", "`name` of the process to ask; all if empty")
	set.StringVar(&f.pod, "pod", "", "`[NAMESPACE/]POD[:PORT]` of the process to ask, for one that holds no Lease")
	set.StringVarP(&f.home, "setpoint-namespace", "N", "setpoint-system", "`namespace` of the Leases by which processes are found, for who may not list those of all")
	completeNamespaces(c, &f.cluster, "namespace", "setpoint-namespace")
}

// reading is one command that reads: the cluster, and the processes that were found.
type reading struct {
	*program
	*readFlags
	found   host.Cluster
	sources []inspect.Source
	// folder finds the processes of this machine, if the kubeconfig leads there; pods
	// are those in pods, as they were found before.
	folder func(context.Context) []inspect.Source
	pods   map[pods.Place]reached
	// patience is how long processes are waited for.
	patience *inspect.Patience
	// rights decide what of all that is found is shown.
	rights *rights
	// looked is when it was looked last which processes there are.
	looked time.Time
	// silent are warnings about processes, as they were given last, passed those about
	// what leads to none, and unseen those about what is left out.
	silent, passed, unseen complaints
}

// patience is how long a process may take for an answer, through the API server too.
const patience = 10 * time.Second

// open finds the cluster and the processes.
func (f *readFlags) open(ctx context.Context, p *program) (*reading, error) {
	cluster, err := f.cluster.find()
	if err != nil {
		return nil, err
	}
	if f.namespace != "" {
		cluster.Namespace = f.namespace
	}
	mine, err := newRights(cluster)
	if err != nil {
		return nil, err
	}
	r := &reading{program: p, readFlags: f, found: cluster, rights: mine, patience: inspect.NewPatience(patience)}
	if cluster.Processes != "" && f.pod == "" {
		r.folder = reach.Folder(cluster.Processes)
	}
	err = r.look(ctx)
	return r, err
}

// each asks all processes at the same time, and returns the answers there are. One that
// does not answer is reported; it is an error if none does. That something is not known
// to one of them is none.
func each[T any](ctx context.Context, r *reading, ask func(context.Context, inspect.Source) (T, error)) ([]inspect.Answer[T], error) {
	var found []inspect.Answer[T]
	var problems []error
	for _, a := range inspect.AskAll(ctx, r.patience, r.sources, ask) {
		switch {
		case a.Err == nil:
			found = append(found, a)
		case !errors.Is(a.Err, inspect.ErrNotFound):
			problems = append(problems, a.Err)
		}
	}
	if len(problems) == len(r.sources) {
		return nil, errors.Join(problems...)
	}
	r.silent.tell(r.stderr, problems...)
	return found, nil
}

// complaints are warnings as they were given last.
type complaints []string

// tell warns of problems that were not there before.
func (c *complaints) tell(out io.Writer, problems ...error) {
	var now complaints
	for _, err := range problems {
		now = append(now, err.Error())
		if !slices.Contains(*c, err.Error()) {
			fmt.Fprintln(out, "warning:", clean(err.Error()))
		}
	}
	*c = now
}
