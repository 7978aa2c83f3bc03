package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// Exploration says what to explore of the controllers of a workspace.
type Exploration struct {
	// Name and Document say where it is; the Document is empty for the default one.
	Name     string
	Document manifest.Document
	// External is what hooks call outside of the cluster; nil for nothing.
	External *loop.External

	spec explorationSpec
	// chosen are the controllers to explore; empty for all.
	chosen []*workspace.Controller
}

// explorationSpec are the fields of a document of kind Exploration.
type explorationSpec struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	// Controller is the name of a controller, or KIND/NAME. Without it all are explored together.
	Controller string            `json:"controller"`
	Objects    []json.RawMessage `json:"objects"`
	Edits      []editSpec        `json:"edits"`
	Invariants []Invariant       `json:"invariants"`
	Unchecked  []Property        `json:"unchecked"`
	Bounds     boundsSpec        `json:"bounds"`
}

// boundsSpec are the bounds of a document: those that are not set are those of the command line.
type boundsSpec struct {
	Edits   *int   `json:"edits"`
	Crashes *int   `json:"crashes"`
	Faults  *int   `json:"faults"`
	Time    string `json:"time"`
	States  int    `json:"states"`
	Writes  int    `json:"writes"`
}

// Read returns the explorations of a workspace. If there are none, each controller has a default one, of its samples.
// It returns all errors.
func Read(w *workspace.Workspace) ([]*Exploration, error) {
	var all []*Exploration
	var problems []error
	for _, d := range w.Tests {
		if d.Object.GetKind() != workspace.ExplorationKind {
			continue
		}
		x, err := New(d, w)
		problems = append(problems, err)
		if err == nil {
			all = append(all, x)
		}
	}
	if len(all) == 0 && errors.Join(problems...) == nil {
		for _, c := range w.Controllers {
			if len(c.Programs)+len(c.Handlers) > 0 && len(w.SamplesOf(c)) > 0 {
				all = append(all, &Exploration{Name: c.Object.Name(), chosen: []*workspace.Controller{c}})
			}
		}
	}
	return all, errors.Join(problems...)
}

// New returns the exploration of a document.
func New(d manifest.Document, w *workspace.Workspace) (*Exploration, error) {
	x := &Exploration{Name: d.Object.GetName(), Document: d}
	if err := d.Decode(&x.spec); err != nil {
		return nil, err
	}
	err := x.check(w)
	if err != nil && d.File != "" {
		err = fmt.Errorf("%s: %s: %w", d.Locate(err), x.Name, err)
	}
	return x, err
}

// check checks what needs no server.
func (x *Exploration) check(w *workspace.Workspace) error {
	if x.spec.Controller != "" {
		if err := x.choose(w, x.spec.Controller); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
	}
	for _, p := range x.spec.Unchecked {
		if !slices.Contains(Properties, p) {
			return fmt.Errorf("unchecked: %q is no property; there are %s", p, join(Properties))
		}
	}
	if _, err := x.bounds(Bounds{}); err != nil {
		return err
	}
	return CheckInvariants(x.spec.Invariants)
}

// choose adds a controller to those to explore, by its name or KIND/NAME.
func (x *Exploration) choose(w *workspace.Workspace, name string) error {
	at := slices.IndexFunc(w.Controllers, func(c *workspace.Controller) bool {
		return c.Object.Name() == name || strings.EqualFold(c.String(), name)
	})
	if at < 0 {
		return fmt.Errorf("%q is not in the files", name)
	}
	x.chosen = append(x.chosen, w.Controllers[at])
	return nil
}

// bounds returns the bounds of the document, completed by those of the command line.
func (x *Exploration) bounds(bounds Bounds) (Bounds, error) {
	for _, b := range []struct {
		from *int
		to   *int
	}{{x.spec.Bounds.Edits, &bounds.Edits}, {x.spec.Bounds.Crashes, &bounds.Crashes}, {x.spec.Bounds.Faults, &bounds.Faults}} {
		if b.from != nil {
			*b.to = *b.from
		}
	}
	if x.spec.Bounds.States > 0 {
		bounds.States = x.spec.Bounds.States
	}
	if x.spec.Bounds.Writes > 0 {
		bounds.Writes = x.spec.Bounds.Writes
	}
	if x.spec.Bounds.Time != "" {
		d, err := time.ParseDuration(x.spec.Bounds.Time)
		if err != nil || d <= 0 {
			return bounds, fmt.Errorf("bounds.time: %q must be a duration such as 30s", x.spec.Bounds.Time)
		}
		bounds.Time = d
	}
	return bounds, bounds.check()
}
