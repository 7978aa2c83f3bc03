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
	"github.com/setpoint-dev/setpoint/internal/reach/pods"
)

// errNoProcess is said where nobody answers.
var errNoProcess = errors.New("no process that runs controllers is found")

// reached is a process in a pod, and what ends the connection to it.
type reached struct {
	inspect.Source
	leave context.CancelFunc
}

// look finds the processes that are meant. Those that were found before are the same
// Sources; if it fails, they stay.
func (r *reading) look(ctx context.Context) error {
	r.looked = time.Now()
	var found []inspect.Source
	if r.folder != nil {
		found = r.folder(ctx)
	}
	if len(found) == 0 {
		var err error
		if found, err = r.lookInPods(ctx); err != nil {
			return err
		}
	}
	if r.process != "" {
		var names []string
		for _, s := range found {
			names = append(names, s.Name())
		}
		found = slices.DeleteFunc(found, func(s inspect.Source) bool { return s.Name() != r.process })
		if len(found) == 0 {
			return fmt.Errorf("there is no process %q, but %s", r.process, strings.Join(names, ", "))
		}
	}
	r.sources = found
	return nil
}

// lookInPods finds the processes in pods of the cluster.
func (r *reading) lookInPods(ctx context.Context) ([]inspect.Source, error) {
	config := rest.CopyConfig(r.found.Config)
	config.UserAgent = r.found.UserAgent
	places, err := r.places(ctx, config)
	if err != nil {
		return nil, err
	}
	var found []inspect.Source
	for _, place := range places {
		source, err := r.reach(ctx, config, place)
		if err != nil {
			return nil, err
		}
		found = append(found, source)
	}
	r.leave(places)
	if len(found) == 0 {
		return nil, hinted{errNoProcess, "no Lease leads to one: those that elect a leader are found by theirs; --pod NAMESPACE/POD names another one"}
	}
	return found, nil
}

// reach is the process at a place, by the connection that there is.
func (r *reading) reach(ctx context.Context, config *rest.Config, place pods.Place) (inspect.Source, error) {
	if known, is := r.pods[place]; is {
		return known.Source, nil
	}
	ctx, leave := context.WithCancel(ctx)
	source, err := pods.Reach(ctx, config, place)
	if err != nil {
		leave()
		return nil, err
	}
	if r.pods == nil {
		r.pods = map[pods.Place]reached{}
	}
	r.pods[place] = reached{source, leave}
	return source, nil
}

// leave ends connections to where no process is any more.
func (r *reading) leave(present []pods.Place) {
	for place, known := range r.pods {
		if !slices.Contains(present, place) {
			known.leave()
			delete(r.pods, place)
		}
	}
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
	var problems []error
	for _, note := range notes {
		problems = append(problems, errors.New(note))
	}
	r.passed.tell(r.stderr, problems...)
	if err != nil {
		return nil, hinted{err, "-N names the namespace of the Leases, --pod the pod itself"}
	}
	return places, nil
}
