package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/portforward"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// readFlags are the flags of commands that read running processes.
type readFlags struct {
	placeFlags

	process string
	// pod is the pod to read, instead of those found by their Leases in leaseNamespace.
	pod, leaseNamespace string
	watch               bool
	// replicas means to read the replicas without the Lease, too.
	replicas bool
	outputFlags
}

// discoveryHelp explains how the commands find processes.
const discoveryHelp = `The command reads the processes that run controllers. It finds those of 'setpoint dev' by
their kubeconfig, and those in pods by their Leases. It connects to a pod by port-forward
and authenticates with the token in the Secret setpoint-inspect, so you need permission
to create pods/portforward and to get that Secret in its namespace. Both together are for
cluster admins: with them another client can read everything that the process sees,
except the values of Secrets.

The output is limited to what you may read. The history of an object needs permission to
get it; the contents of requests, responses and changes, and children, permission to get
their kind in the namespace; lists need permission to list; and the errors of a
controller, permission to get the object that declares it, or to list all kinds that it
handles and writes. Hidden parts are marked.

Exit codes: 0 success, 1 failure, 2 wrong usage.`

func (f *readFlags) register(c *cobra.Command) {
	f.registerDiscovery(c)
	set := c.Flags()
	set.BoolVarP(&f.watch, "watch", "w", false, "after printing, watch for changes")
	f.outputFlags.register(c)
}

// registerDiscovery adds the flags that select the processes.
func (f *readFlags) registerDiscovery(c *cobra.Command) {
	f.registerPlace(c, "", ofObjects)
	set := c.Flags()
	set.StringVar(&f.process, "process", "", "`name` of the process to read (default: all)")
	set.StringVar(&f.pod, "pod", "", "`[NAMESPACE/]POD[:PORT]` to read, for a process without a Lease")
	set.StringVarP(&f.leaseNamespace, "setpoint-namespace", "N", installNamespace,
		"`namespace` of the Leases, if you cannot list those of all namespaces")
	completeNamespaces(c, &f.cluster, "setpoint-namespace")
	_ = c.RegisterFlagCompletionFunc("process", completeSession(f, completeProcesses)) // It fails only for an undefined flag.
}

// session is one run of a reading command: the cluster, and the processes found.
type session struct {
	*program
	*readFlags
	target  manager.Cluster
	sources []inspect.Source
	// localProcesses finds the processes on this machine, if the kubeconfig refers to them;
	// pods are the open connections to pods.
	localProcesses func(context.Context) []inspect.Source
	// besidePods means that there may be processes in pods, too: `setpoint dev` has not booted the cluster.
	besidePods bool
	pods       map[portforward.Location]podConnection
	// timeouts bound the requests to processes.
	timeouts *inspect.Timeouts
	// permissions limit the output.
	permissions *permissions
	// discovered is the time of the latest discovery.
	discovered time.Time
	// unresponsive, podNotes and hidden are the warnings printed last: about processes,
	// about pods that were skipped, and about hidden parts.
	unresponsive, podNotes, hidden warnings
}

// processTimeout bounds one request to a process, through the API server too.
const processTimeout = 10 * time.Second

// open finds the cluster and the processes.
func (f *readFlags) open(ctx context.Context, p *program) (*session, error) {
	cluster, err := f.find()
	if err != nil {
		return nil, err
	}
	perms, err := newPermissions(cluster)
	if err != nil {
		return nil, err
	}
	r := &session{program: p, readFlags: f, target: cluster, permissions: perms, timeouts: inspect.NewTimeouts(processTimeout)}
	if local := cluster.LocalDir(); local != "" && f.pod == "" {
		r.localProcesses, r.besidePods = locate.FolderSources(local), cluster.ProcessDir == ""
	}
	err = r.discover(ctx)
	return r, err
}

// queryAll queries all processes in parallel and returns the results. Errors are printed as
// warnings; they are returned only if every process failed. ErrNotFound is not an error.
func queryAll[T any](ctx context.Context, r *session, call func(context.Context, inspect.Source) (T, error)) ([]inspect.Result[T], error) {
	var found []inspect.Result[T]
	var problems []error
	for _, a := range inspect.QueryAll(ctx, r.timeouts, r.sources, call) {
		switch {
		case a.Err == nil:
			found = append(found, a)
		case !errors.Is(a.Err, failure.ErrNotFound):
			problems = append(problems, a.Err)
		}
	}
	if len(problems) == len(r.sources) {
		return nil, errors.Join(problems...)
	}
	r.unresponsive.print(r.stderr, problems...)
	return found, nil
}

// warnings are the warnings printed last.
type warnings []string

// print prints the warnings that are new.
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
