package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery/portforward"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// readFlags are what the commands can be told that read running processes.
type readFlags struct {
	cluster   clusterFlags
	namespace string
	process   string
	// pod is where to look instead of where processes are found; home is where the
	// Leases are by which they are.
	pod, leaseNamespace string
	watch               bool
	output              *choice
	// noHeaders says that tables have no head.
	noHeaders bool
}

// Values of --output.
const (
	asTable = "table"
	asText  = "text"
	asWide  = "wide"
	asJSON  = "json"
	asYAML  = "yaml"
	asName  = "name"
)

// discoveryHelp is what the commands say of how they find processes.
const discoveryHelp = `It is read from the processes that run controllers: those that 'setpoint dev' has
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
	f.registerDiscovery(c)
	set := c.Flags()
	set.BoolVarP(&f.watch, "watch", "w", false, "go on, and show what changes")
	f.output.flag(c, "output", "o", "how to write it")
}

// registerDiscovery adds the flags by which processes are found.
func (f *readFlags) registerDiscovery(c *cobra.Command) {
	set := c.Flags()
	set.SortFlags = false
	f.cluster.register(c)
	set.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of the objects; that of the context if empty")
	set.StringVar(&f.process, "process", "", "`name` of the process to ask; all if empty")
	set.StringVar(&f.pod, "pod", "", "`[NAMESPACE/]POD[:PORT]` of the process to ask, for one that holds no Lease")
	set.StringVarP(&f.leaseNamespace, "setpoint-namespace", "N", "setpoint-system", "`namespace` of the Leases by which processes are found, for who may not list those of all")
	completeNamespaces(c, &f.cluster, "namespace", "setpoint-namespace")
}

// session is one command that reads: the cluster, and the processes that were found.
type session struct {
	*program
	*readFlags
	target  manager.Cluster
	sources []model.Source
	// localProcesses finds the processes of this machine, if the kubeconfig leads there; pods
	// are those in pods, as they were found before.
	localProcesses func(context.Context) []model.Source
	pods           map[portforward.Location]podConnection
	// timeouts is how long processes are waited for.
	timeouts *model.Timeouts
	// permissions decide what of all that is found is shown.
	permissions *permissions
	// discovered is when it was looked last which processes there are.
	discovered time.Time
	// unresponsive are warnings about processes, as they were given last, passed those about
	// what leads to none, and unseen those about what is left out.
	unresponsive, podNotes, hidden warnings
}

// processTimeout is how long a process may take for an answer, through the API server too.
const processTimeout = 10 * time.Second

// open finds the cluster and the processes.
func (f *readFlags) open(ctx context.Context, p *program) (*session, error) {
	cluster, err := f.cluster.find()
	if err != nil {
		return nil, err
	}
	if f.namespace != "" {
		cluster.Namespace = f.namespace
	}
	perms, err := newPermissions(cluster)
	if err != nil {
		return nil, err
	}
	r := &session{program: p, readFlags: f, target: cluster, permissions: perms, timeouts: model.NewTimeouts(processTimeout)}
	if cluster.ProcessDir != "" && f.pod == "" {
		r.localProcesses = discovery.FolderSources(cluster.ProcessDir)
	}
	err = r.discover(ctx)
	return r, err
}

// queryAll asks all processes at the same time, and returns the answers there are. One that
// does not answer is reported; it is an error if none does. That something is not known
// to one of them is none.
func queryAll[T any](ctx context.Context, r *session, ask func(context.Context, model.Source) (T, error)) ([]model.Result[T], error) {
	var found []model.Result[T]
	var problems []error
	for _, a := range model.QueryAll(ctx, r.timeouts, r.sources, ask) {
		switch {
		case a.Err == nil:
			found = append(found, a)
		case !errors.Is(a.Err, model.ErrNotFound):
			problems = append(problems, a.Err)
		}
	}
	if len(problems) == len(r.sources) {
		return nil, errors.Join(problems...)
	}
	r.unresponsive.print(r.stderr, problems...)
	return found, nil
}

// warnings are warnings as they were given last.
type warnings []string

// print warns of problems that were not there before.
func (c *warnings) print(out io.Writer, problems ...error) {
	var now warnings
	for _, err := range problems {
		now = append(now, err.Error())
		if !slices.Contains(*c, err.Error()) {
			fmt.Fprintln(out, "warning:", clean(err.Error()))
		}
	}
	*c = now
}
