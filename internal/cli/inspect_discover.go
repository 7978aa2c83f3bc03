package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/portforward"
)

// errNoProcessFound is returned if no process responds.
var errNoProcessFound = errors.New("no process with controllers found")

// unknownProcessError is a name that no process has.
type unknownProcessError struct {
	name  string
	known []string
}

func (e *unknownProcessError) Error() string {
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

// discover finds the processes. Known ones keep their Source. On error the previous ones
// stay.
func (r *session) discover(ctx context.Context) error {
	r.discovered = time.Now()
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
	if r.process != "" {
		var names []string
		for _, s := range found {
			names = append(names, s.Name())
		}
		found = slices.DeleteFunc(found, func(s inspect.Source) bool { return s.Name() != r.process })
		if len(found) == 0 {
			return &unknownProcessError{r.process, names}
		}
	}
	r.sources = found
	return nil
}

// discoverPods finds the processes in pods of the cluster.
func (r *session) discoverPods(ctx context.Context) ([]inspect.Source, error) {
	config := rest.CopyConfig(r.target.Config)
	config.UserAgent = r.target.UserAgent
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
		return nil, errorWithHint{errNoProcessFound,
			"there is no Lease of a process; use --pod NAMESPACE/POD for a process without leader election"}
	}
	return found, nil
}

// connectPod returns the process of a pod, by the existing connection if there is one.
func (r *session) connectPod(ctx context.Context, config *rest.Config, place portforward.Location) (inspect.Source, error) {
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
func (r *session) closePods(present []portforward.Location) {
	for place, known := range r.pods {
		if !slices.Contains(present, place) {
			known.close()
			delete(r.pods, place)
		}
	}
}

// podLocations returns the pods to connect to.
func (r *session) podLocations(ctx context.Context, config *rest.Config) ([]portforward.Location, error) {
	if r.pod != "" {
		place, err := portforward.Parse(r.pod, r.target.Namespace)
		if err != nil {
			return nil, usageError{fmt.Errorf("--pod: %w", err)}
		}
		return []portforward.Location{place}, nil
	}
	places, notes, err := portforward.Discover(ctx, config, r.leaseNamespace)
	var problems []error
	for _, note := range notes {
		problems = append(problems, errors.New(note))
	}
	if r.replicas {
		more, err := findReplicas(ctx, config, places)
		places = append(places, more...)
		if err != nil {
			problems = append(problems, fmt.Errorf("what other replicas have served is missing: %w", err))
		}
	}
	r.podNotes.print(r.stderr, problems...)
	if err != nil {
		return nil, errorWithHint{err, "-N selects the namespace of the Leases, --pod the pod itself"}
	}
	return places, nil
}

// findReplicas returns the other replicas of the holders of Leases.
func findReplicas(ctx context.Context, config *rest.Config, holders []portforward.Location) ([]portforward.Location, error) {
	var found []portforward.Location
	var problems []error
	for _, holder := range holders {
		replicas, err := portforward.Replicas(ctx, config, holder)
		if err != nil {
			problems = append(problems, err)
		}
		found = append(found, replicas...)
	}
	return found, errors.Join(problems...)
}
