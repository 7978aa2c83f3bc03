// Package bundle writes `setpoint support-bundle`: an archive with what a maintainer needs to find a defect. It reads little
// for each of many things, and nothing that is meant to be secret; what looks like a secret is masked. What cannot be read
// is listed, and the rest is written.
//
// It does not find processes and knows no command.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// timeout is that of one request.
const timeout = 15 * time.Second

// Options say what a bundle is made of.
type Options struct {
	// Config is the cluster with the credentials of the user.
	Config *rest.Config
	// Version is that of the command.
	Version any
	Time    time.Time
	Sources []inspect.Source
	// Pods are those of the sources, Namespaces those of Setpoint.
	Pods       []Pod
	Namespaces []string
	// Visible limits what processes say to what the user may read.
	Visible Visible
	// Missing are processes that were not found or do not respond.
	Missing []error
}

// Pod is a pod with a process.
type Pod struct{ Namespace, Name string }

// Visible hides what the user may not read.
type Visible interface {
	Controllers(ctx context.Context, all []inspect.Controller) []inspect.Controller
	// State returns nil for an object that the user may not read.
	State(ctx context.Context, state inspect.ObjectState) any
	Run(ctx context.Context, run inspect.Run) inspect.Run
}

// Summary says what was written.
type Summary struct {
	Files   int
	Missing []string
}

// Write writes a bundle. Its error is that of writing; what is not read is in the Summary.
func Write(ctx context.Context, out io.Writer, o Options) (Summary, error) {
	a := newArchive(out, o.Time)
	for _, err := range o.Missing {
		a.miss("processes", err)
	}
	a.addJSON("version.json", o.Version)
	for i, source := range o.Sources {
		p := process{archive: a, source: source, visible: o.Visible, dir: fmt.Sprintf("processes/%d/", i+1)}
		p.read(ctx)
	}
	if len(o.Sources) > 0 && len(o.Pods) == 0 {
		a.miss("logs", errors.New("the processes do not run in pods; add what they print"))
	}
	if c, err := newCluster(a, &o); err != nil {
		a.miss("cluster", err)
	} else {
		c.read(ctx)
	}
	if err := a.close(); err != nil {
		return Summary{}, fmt.Errorf("write the bundle: %w", err)
	}
	return Summary{Files: len(a.files) + 1, Missing: a.missing}, nil
}
