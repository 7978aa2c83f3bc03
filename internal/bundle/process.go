package bundle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// The limits of one process.
const (
	// maxObjects is the most failing objects of one controller, maxAllObjects of all.
	maxObjects    = 10
	maxAllObjects = 100
	// maxRuns is the most runs of one object.
	maxRuns = 5
	// timeout is that of one request.
	timeout = 15 * time.Second
)

// folder returns the folder of the last of some sources: its name, with a number if others have it too.
func folder(sources []model.Source) string {
	last := sources[len(sources)-1].Name()
	same := 0
	for _, source := range sources {
		if source.Name() == last {
			same++
		}
	}
	name := strings.NewReplacer("/", "_", "\\", "_", "..", "_").Replace(last)
	if same > 1 {
		return fmt.Sprintf("%s-%d", name, same)
	}
	return name
}

// process reads one process.
type process struct {
	*archive

	source  model.Source
	visible Visible
	dir     string
}

func (p *process) read(ctx context.Context) {
	if !readJSON(ctx, p, "process.json", p.source.Process) {
		return // It does not respond.
	}
	for _, each := range []struct{ name, file string }{
		{model.DiagnosticCommand, "command.json"}, {model.DiagnosticMetrics, "metrics.txt"},
		{model.DiagnosticGoroutines, "goroutines.txt"}, {model.DiagnosticHeap, "heap.pprof"},
	} {
		p.diagnostic(ctx, each.name, p.dir+each.file)
	}
	readJSON(ctx, p, "requests.json", p.source.Requests)
	var all []model.Controller
	readJSON(ctx, p, "controllers.json", func(ctx context.Context) ([]model.Controller, error) {
		found, err := p.source.Controllers(ctx)
		if all = p.visible.Controllers(ctx, found); err == nil && len(all) < len(found) {
			p.missHidden("controllers.json", countOf(len(found)-len(all), "controller"))
		}
		return all, err
	})
	p.failing(ctx, all)
}

// missHidden notes what the user may not read, or of what that is not known.
func (p *process) missHidden(file, what string) {
	if err := p.visible.Err(); err != nil {
		p.miss(p.dir+file, fmt.Errorf("%s left out: %w", what, err))
		return
	}
	p.miss(p.dir+file, fmt.Errorf("you may not read %s", what))
}

// countOf returns text such as "2 controllers".
func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// readJSON reads one view of a process.
func readJSON[T any](ctx context.Context, p *process, file string, read func(context.Context) (T, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := read(ctx)
	if err != nil {
		p.miss(p.dir+file, err)
		return false
	}
	p.addJSON(p.dir+file, found)
	return true
}

// diagnostic adds a diagnostic. A profile of the heap has sizes and names of functions, and no contents.
func (p *process) diagnostic(ctx context.Context, name, file string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := p.source.Diagnostic(ctx, name)
	switch {
	case err != nil:
		p.miss(file, err)
	case name == model.DiagnosticCommand: // A flag says whether the next argument is a secret.
		p.addJSON(file, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"))
	case name == model.DiagnosticHeap:
		p.addMasked(file, data)
	default:
		p.addText(file, data)
	}
}

// failingObject is an object that needs a look, with its latest runs.
type failingObject struct {
	State any         `json:"state"`
	Runs  []model.Run `json:"runs"`
}

// failing adds failing and conflicting objects of the controllers, some of each.
func (p *process) failing(ctx context.Context, controllers []model.Controller) {
	all := []failingObject{}
	for i := range controllers {
		for _, state := range []model.State{model.StateFailing, model.StateConflicting} {
			if n := min(maxObjects, maxAllObjects-len(all)); n > 0 && controllers[i].Failing+controllers[i].Conflicting > 0 {
				all = append(all, p.objects(ctx, controllers[i].Name, model.Query{State: state, Limit: n})...)
			}
		}
	}
	p.addJSON(p.dir+"failing.json", all)
}

// objects returns the objects of a query that the user may read, without requests and responses.
func (p *process) objects(ctx context.Context, controller string, q model.Query) (all []failingObject) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	page, err := p.source.Objects(ctx, controller, q)
	if err != nil {
		p.miss(p.dir+"failing.json", fmt.Errorf("%s: %w", controller, err))
		return nil
	}
	hidden := 0
	for i := range page.Objects {
		state := p.visible.State(ctx, page.Objects[i])
		if state == nil {
			hidden++
			continue
		}
		runs, err := p.source.Runs(ctx, page.Objects[i].Ref, maxRuns)
		if err != nil {
			p.miss(p.dir+"failing.json", fmt.Errorf("runs of %s: %w", page.Objects[i].Name, err))
		}
		for j := range runs {
			runs[j] = p.visible.Run(ctx, runs[j])
		}
		all = append(all, failingObject{State: state, Runs: runs})
	}
	if hidden > 0 {
		p.missHidden("failing.json", countOf(hidden, "object")+" of "+controller)
	} else if err := p.visible.Err(); err != nil { // of their runs or children
		p.miss(p.dir+"failing.json", fmt.Errorf("%s: %w", controller, err))
	}
	if page.Matching > len(page.Objects) {
		p.miss(p.dir+"failing.json", fmt.Errorf("%d of %d objects of %s that are %s", page.Matching-len(page.Objects), page.Matching, controller, q.State))
	}
	return all
}
