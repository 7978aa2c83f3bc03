// Package processes finds the processes that run controllers, on this machine and in pods, and reads from them what the
// user may see: controllers, their objects, and changes.
package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/portforward"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ReadFlags are the flags of commands that read running processes.
type ReadFlags struct {
	client.PlaceFlags

	Process string
	// Pod is the pod to read, instead of those found by their Leases in leaseNamespace.
	Pod, LeaseNamespace string
	Watch               bool
	// Replicas means to read the replicas without the Lease, too.
	Replicas bool
	output.PrintFlags
}

// DiscoveryHelp explains how the commands find processes.
const DiscoveryHelp = `The command reads the processes that run controllers. It finds those of 'setpoint dev' by
the working directory or the kubeconfig, and those in pods by their Leases. It connects
to a pod by port-forward and authenticates with the token in the Secret setpoint-inspect,
so you need permission to create pods/portforward and to get that Secret in its namespace.
Both together are for cluster admins: with them another client can read everything that
the process sees, except the values of Secrets.

The output is limited to what you may read. The history of an object needs permission to
get it; the contents of requests, responses and changes, and children, permission to get
their kind in the namespace; lists need permission to list; and the errors of a
controller, permission to get the object that declares it, or to list all kinds that it
handles and writes. Hidden parts are marked.

Exit codes: 0 success, 1 failure, 2 wrong usage.`

// Register adds the flags.
func (f *ReadFlags) Register(c *cobra.Command) {
	f.RegisterDiscovery(c)
	set := c.Flags()
	set.BoolVarP(&f.Watch, "watch", "w", false, "after printing, watch for changes")
	f.PrintFlags.Register(c)
}

// RegisterDiscovery adds the flags that select the processes.
func (f *ReadFlags) RegisterDiscovery(c *cobra.Command) {
	f.RegisterPlace(c, "", client.OfObjects)
	f.RegisterProcesses(c)
}

// RegisterProcesses adds the flags that select processes of a cluster.
func (f *ReadFlags) RegisterProcesses(c *cobra.Command) {
	set := c.Flags()
	set.StringVar(&f.Process, "process", "", "`name` of the process to read (default: all)")
	set.StringVar(&f.Pod, "pod", "", "`[NAMESPACE/]POD[:PORT]` to read, for a process without a Lease")
	set.StringVarP(&f.LeaseNamespace, "setpoint-namespace", "N", client.InstallNamespace,
		"`namespace` of the Leases, if you cannot list those of all namespaces")
	client.CompleteNamespaces(c, &f.Cluster, "setpoint-namespace")
	_ = c.RegisterFlagCompletionFunc("process", completeSession(f, // It fails only for an undefined flag.
		func(_ context.Context, r *Session, _ []string, _ string) []string {
			return lists.Map(r.Sources, inspect.Source.Name)
		}))
}

// Session is one run of a reading command: the cluster, and the processes found.
type Session struct {
	*command.Invocation
	*ReadFlags
	Target  manager.Cluster
	Sources []inspect.Source
	// localProcesses finds the processes on this machine, if the kubeconfig refers to them;
	// pods are the open connections to pods.
	localProcesses func(context.Context) []inspect.Source
	// besidePods means that there may be processes in pods, too: `setpoint dev` has not booted the cluster.
	besidePods bool
	pods       map[portforward.Location]podConnection
	// Timeouts bound the requests to processes.
	Timeouts *inspect.Timeouts
	// Client reads the cluster as the user, and limits the output.
	Client *client.Client
	// Discovered is the time of the latest discovery.
	Discovered time.Time
	// unresponsive and podNotes are the warnings printed last: about processes, and about pods that were skipped.
	unresponsive, podNotes Warnings
}

// processTimeout bounds one request to a process, through the API server too.
const processTimeout = 10 * time.Second

// Open finds the cluster and the processes.
func (f *ReadFlags) Open(ctx context.Context, p *command.Invocation) (*Session, error) {
	user, err := f.Connect()
	if err != nil {
		return nil, err
	}
	cluster := user.Cluster
	r := &Session{Invocation: p, ReadFlags: f, Target: cluster, Client: user, Timeouts: inspect.NewTimeouts(processTimeout)}
	if local := cluster.LocalDir(); local != "" && f.Pod == "" {
		r.localProcesses, r.besidePods = locate.FolderSources(local), cluster.ProcessDir == ""
	}
	err = r.Discover(ctx)
	return r, err
}

// QueryAll queries all processes in parallel and returns the results. Errors are printed as
// warnings; they are returned only if every process failed. ErrNotFound is not an error.
func QueryAll[T any](ctx context.Context, r *Session, call func(context.Context, inspect.Source) (T, error)) ([]inspect.Result[T], error) {
	var found []inspect.Result[T]
	var problems []error
	for _, a := range inspect.QueryAll(ctx, r.Timeouts, r.Sources, call) {
		switch {
		case a.Err == nil:
			found = append(found, a)
		case !errors.Is(a.Err, failure.ErrNotFound):
			problems = append(problems, a.Err)
		}
	}
	if len(problems) == len(r.Sources) {
		return nil, errors.Join(problems...)
	}
	r.unresponsive.Print(r.Stderr, problems...)
	return found, nil
}

// Warnings are the warnings printed last.
type Warnings []string

// Print prints the warnings that are new. A warning that is not among them may be printed again.
func (c *Warnings) Print(out io.Writer, problems ...error) {
	var now Warnings
	for _, err := range problems {
		if err == nil {
			continue
		}
		now = append(now, err.Error())
		if !slices.Contains(*c, err.Error()) {
			fmt.Fprintln(out, "warning:", output.Clean(err.Error()))
		}
	}
	*c = now
}

// OpenObject opens the session of a command about one object.
func (f *ReadFlags) OpenObject(ctx context.Context, p *command.Invocation, args []string) (*Session, object.Ref, error) {
	r, err := f.Open(ctx, p)
	if err != nil {
		return nil, object.Ref{}, err
	}
	kind, name, err := client.ParseObject(args)
	if err != nil {
		return nil, object.Ref{}, err
	}
	ref, err := r.Client.Find(ctx, kind, name, r.Target.Namespace)
	return r, ref, err
}

// completeSession returns a completion function that reads the running processes.
func completeSession(f *ReadFlags, find func(context.Context, *Session, []string, string) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), client.CompleteLimit)
		defer cancel()
		r, err := f.Open(ctx, &command.Invocation{Stderr: io.Discard})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return command.WithPrefix(word, find(ctx, r, args, word)), cobra.ShellCompDirectiveNoFileComp
	}
}
