package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

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
}

// Values of --output.
const (
	asTable = "table"
	asText  = "text"
	wide    = "wide"
	asJSON  = "json"
	asYAML  = "yaml"
)

// reachHelp is what the commands say of how they find processes.
const reachHelp = `It is read from the processes that run controllers: those that 'setpoint dev' has
started, by the kubeconfig that it wrote, or those in the pods of a cluster, by
the Leases that they hold. A pod is reached by port-forward, for which you need the
right to create pods/portforward in its namespace. That is a right for
administrators: who has it could read with another client all that the process
sees, of whatever kind, but the values of Secrets.

The commands themselves show only what you may read. What was done about an object
takes your right to get it; what objects hold, in requests, replies and changes,
and children, the right to get those of their kind in the namespace; a list of objects the right to list
them; and what a controller fails with the right to get the object that
declares it, or else to list all objects it handles and writes. What is left out
is said.

Exit codes: 0 shown, 1 failed, 2 wrong usage.`

func (f *readFlags) register(c *cobra.Command) {
	set := c.Flags()
	set.SortFlags = false
	f.cluster.register(c)
	set.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of the objects; that of the context if empty")
	set.StringVar(&f.process, "process", "", "`name` of the process to ask; all if empty")
	set.StringVar(&f.pod, "pod", "", "`[NAMESPACE/]POD[:PORT]` of the process to ask, for one that holds no Lease")
	set.StringVarP(&f.home, "setpoint-namespace", "N", "setpoint-system", "`namespace` of the Leases by which processes are found, for who may not list those of all")
	set.BoolVarP(&f.watch, "watch", "w", false, "go on, and show what changes")
	f.output.flag(c, "output", "o", "how to write it")
}

// reading is one command that reads: the cluster, and the processes that were found.
type reading struct {
	*program
	*readFlags
	found   host.Cluster
	sources []inspect.Source
	// rights decide what of all that is found is shown.
	rights *rights
}

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
	r := &reading{program: p, readFlags: f, found: cluster, rights: mine}
	err = r.look(ctx)
	return r, err
}

// errNoProcess is said where nobody answers.
var errNoProcess = errors.New("no process that runs controllers is found")

// look finds the processes that are meant.
func (r *reading) look(ctx context.Context) error {
	if r.found.Processes != "" && r.pod == "" {
		r.sources = reach.Folder(r.found.Processes)(ctx)
	}
	if len(r.sources) == 0 {
		if err := r.lookInPods(ctx); err != nil {
			return err
		}
	}
	if r.process == "" {
		return nil
	}
	var names []string
	for _, s := range r.sources {
		names = append(names, s.Name())
	}
	r.sources = slices.DeleteFunc(r.sources, func(s inspect.Source) bool { return s.Name() != r.process })
	if len(r.sources) == 0 {
		return fmt.Errorf("there is no process %q, but %s", r.process, strings.Join(names, ", "))
	}
	return nil
}

// lookInPods finds the processes in pods of the cluster.
func (r *reading) lookInPods(ctx context.Context) error {
	config := rest.CopyConfig(r.found.Config)
	config.UserAgent = r.found.UserAgent
	places, err := r.places(ctx, config)
	if err != nil {
		return err
	}
	for _, place := range places {
		source, err := pods.Reach(ctx, config, place)
		if err != nil {
			return err
		}
		r.sources = append(r.sources, source)
	}
	if len(r.sources) == 0 {
		return hinted{errNoProcess, "no Lease leads to one: those that elect a leader are found by theirs; --pod NAMESPACE/POD names another one"}
	}
	return nil
}

// places are the pods to ask.
func (r *reading) places(ctx context.Context, config *rest.Config) ([]pods.Place, error) {
	if r.pod != "" {
		place, err := pods.Parse(r.pod, r.found.Namespace)
		if err != nil {
			return nil, usageError{fmt.Errorf("--pod: %w", err)}
		}
		return []pods.Place{place}, nil
	}
	places, notes, err := pods.Find(ctx, config, r.home)
	for _, note := range notes {
		fmt.Fprintln(r.stderr, "warning:", clean(note))
	}
	if err != nil {
		return nil, hinted{err, "-N names the namespace of the Leases, --pod the pod itself"}
	}
	return places, nil
}

// each asks all processes. One that does not answer is reported; it is an error if none
// does. That something is not known to one of them is none.
func (r *reading) each(ask func(inspect.Source) error) error {
	var problems []error
	for _, s := range r.sources {
		if err := ask(s); err != nil && !errors.Is(err, inspect.ErrNotFound) {
			problems = append(problems, err)
		}
	}
	if len(problems) == len(r.sources) {
		return errors.Join(problems...)
	}
	for _, err := range problems {
		fmt.Fprintln(r.stderr, "warning:", clean(err.Error()))
	}
	return nil
}

// lull is how long there is at least between two looks of --watch.
const lull = 500 * time.Millisecond

// follow shows what there is, and again when something has changed, if it is to.
func (r *reading) follow(ctx context.Context, show func(context.Context) error) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	if err := show(ctx); err != nil || !r.watch {
		return err
	}
	revisions := make([]uint64, len(r.sources))
	for {
		if err := r.await(ctx, revisions); err != nil {
			return ended(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lull):
		}
		if err := show(ctx); err != nil {
			return ended(ctx, err)
		}
	}
}

// ended is no error where the user has ended it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // What failed did because the user has ended it.
	}
	return err
}

// await waits until a process has something new.
func (r *reading) await(ctx context.Context, revisions []uint64) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type news struct {
		from     int
		revision uint64
		err      error
	}
	all := make(chan news, len(r.sources))
	for i, s := range r.sources {
		go func() {
			revision, err := s.Await(ctx, revisions[i])
			all <- news{i, revision, err}
		}()
	}
	first := <-all
	if first.err != nil {
		return first.err
	}
	revisions[first.from] = first.revision
	return nil
}
