package processes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/portforward"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// errNoProcessFound is returned if no process responds.
var errNoProcessFound = errors.New("no process with controllers found")

// UnknownProcessError is a name that no process has.
type UnknownProcessError struct {
	name  string
	known []string
}

func (e *UnknownProcessError) Error() string {
	if len(e.known) == 0 {
		return fmt.Sprintf("no process %q: none was found", e.name)
	}
	return fmt.Sprintf("no process %q, there are: %s", e.name, strings.Join(e.known, ", "))
}

// podConnection is a connection to a process in a pod.
type podConnection struct {
	inspect.Source
	close context.CancelFunc
}

// Discover finds the processes. Known ones keep their Source. On error the previous ones
// stay.
func (r *Session) Discover(ctx context.Context) error {
	r.Discovered = time.Now()
	var found []inspect.Source
	if r.localProcesses != nil {
		found = r.localProcesses(ctx)
	}
	if len(found) == 0 || r.besidePods {
		inPods, err := r.discoverPods(ctx)
		if err != nil && len(found) == 0 {
			return err
		}
		found = append(found, inPods...)
	}
	if r.Process != "" {
		names := lists.Map(found, inspect.Source.Name)
		found = slices.DeleteFunc(found, func(s inspect.Source) bool { return s.Name() != r.Process })
		if len(found) == 0 {
			return &UnknownProcessError{r.Process, names}
		}
	}
	r.Sources = found
	return nil
}

// discoverPods finds the processes in pods of the cluster.
func (r *Session) discoverPods(ctx context.Context) ([]inspect.Source, error) {
	config := rest.CopyConfig(r.Target.Config)
	config.UserAgent = r.Target.UserAgent
	places, err := r.podLocations(ctx, config)
	if err != nil {
		return nil, err
	}
	var found []inspect.Source
	for _, place := range places {
		source, err := r.connectPod(ctx, config, place)
		if err != nil {
			return nil, err
		}
		found = append(found, source)
	}
	r.closePods(places)
	if len(found) == 0 {
		return nil, command.WithHint(errNoProcessFound,
			"there is no Lease of a process; use --pod NAMESPACE/POD for a process without leader election")
	}
	return found, nil
}

// connectPod returns the process of a pod, by the existing connection if there is one.
func (r *Session) connectPod(ctx context.Context, config *rest.Config, place portforward.Location) (inspect.Source, error) {
	if known, is := r.pods[place]; is {
		return known.Source, nil
	}
	ctx, leave := context.WithCancel(ctx)
	source, err := portforward.Connect(ctx, config, place)
	if err != nil {
		leave()
		return nil, err
	}
	if r.pods == nil {
		r.pods = map[portforward.Location]podConnection{}
	}
	r.pods[place] = podConnection{source, leave}
	return source, nil
}

// closePods closes connections to processes that are gone.
func (r *Session) closePods(present []portforward.Location) {
	for place, known := range r.pods {
		if !slices.Contains(present, place) {
			known.close()
			delete(r.pods, place)
		}
	}
}

// podLocations returns the pods to connect to.
func (r *Session) podLocations(ctx context.Context, config *rest.Config) ([]portforward.Location, error) {
	if r.Pod != "" {
		place, err := portforward.Parse(r.Pod, r.Target.Namespace)
		if err != nil {
			return nil, command.UsageErrorf("--pod: %w", err)
		}
		return []portforward.Location{place}, nil
	}
	places, notes, err := portforward.Discover(ctx, config, r.LeaseNamespace)
	problems := lists.Map(notes, errors.New)
	if r.Replicas {
		for _, holder := range slices.Clone(places) {
			replicas, err := portforward.Replicas(ctx, config, holder)
			if err != nil {
				problems = append(problems, fmt.Errorf("what other replicas have served is missing: %w", err))
			}
			places = append(places, replicas...)
		}
	}
	r.podNotes.Print(r.Stderr, problems...)
	if err != nil {
		return nil, command.WithHint(err, "-N selects the namespace of the Leases, --pod the pod itself")
	}
	return places, nil
}

// PodsRead returns the pods with a process that is read.
func (r *Session) PodsRead() []portforward.Location { return slices.Collect(maps.Keys(r.pods)) }
