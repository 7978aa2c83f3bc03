// Package bundle writes what a maintainer needs to find a defect into one archive: the processes as they see
// themselves, and what the API server knows of them.
//
// What lives here: what is read, what is masked, and the limits. What must not: finding processes, flags,
// rights of users. It reads with the credentials it is given, and notes what these may not read. The command
// line calls it.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// Options say what to read.
type Options struct {
	// Config is the cluster with the credentials of the user.
	Config *rest.Config
	// Version is that of the command.
	Version any
	Time    time.Time
	Sources []model.Source
	// Pods are those of the sources, Namespaces those of Setpoint.
	Pods       []Pod
	Namespaces []string
	// Visible limits what processes say to what the user may read.
	Visible Visible
	// LogLines is the number of lines of each container, MaxBytes the limit of all files together.
	LogLines int64
	MaxBytes int
	// Missing are processes that were not found or do not respond.
	Missing []error
	// Progress is called with each part.
	Progress func(what string)
}

// Pod is a pod to read.
type Pod struct{ Namespace, Name string }

// Visible hides what a user may not read.
type Visible interface {
	Controllers(ctx context.Context, all []model.Controller) []model.Controller
	// State returns nil for an object that the user may not read.
	State(ctx context.Context, state model.ObjectState) any
	Run(ctx context.Context, run model.Run) model.Run
	// Err returns and clears the error of access reviews that failed since the last call: what is hidden since then may
	// be readable.
	Err() error
}

// Summary is what Write has done.
type Summary struct {
	Files   int
	Missing []string
}

// Write writes the archive. An error of one part is noted in it; the error of Write is that of out, or of a
// context that was canceled. When the deadline of the context is over, the rest is noted as missing.
func Write(ctx context.Context, out io.Writer, o Options) (Summary, error) {
	a := newArchive(out, o.Time, o.MaxBytes)
	for _, err := range o.Missing {
		a.miss("processes", err)
	}
	a.addJSON("version.json", o.Version)
	for i, source := range o.Sources {
		o.Progress("process " + source.Name())
		p := process{archive: a, source: source, visible: o.Visible, dir: fmt.Sprintf("processes/%s/", folder(o.Sources[:i+1]))}
		p.read(ctx)
	}
	if len(o.Sources) > 0 && len(o.Pods) == 0 {
		a.miss("logs", errors.New("the processes do not run in pods; add what they print"))
	}
	c, err := newCluster(a, &o)
	if err != nil {
		a.miss("cluster", err)
	} else {
		c.read(ctx)
	}
	heading := "Setpoint's support bundle of " + o.Time.UTC().Format(time.RFC3339) + ". Secrets are not read; what looks like one is " + masked + ".\nLook at the files before you send them.\n"
	if err := a.close(heading); err != nil {
		return Summary{}, fmt.Errorf("write the bundle: %w", err)
	}
	if ctx.Err() == context.Canceled {
		return Summary{}, ctx.Err()
	}
	return Summary{Files: len(a.files) + 1, Missing: a.missing}, nil
}
