package bundle

import (
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// The most failing objects of one controller, and runs of one object.
const (
	maxObjects = 10
	maxRuns    = 5
)

// process reads what one process says of itself.
type process struct {
	*archive

	source  inspect.Source
	visible Visible
	dir     string
}

func (p *process) read(ctx context.Context) {
	if _, read := readJSON(ctx, p, "process.json", p.source.Process); !read {
		return // It does not respond.
	}
	// A flag says whether the next argument is a secret.
	readJSON(ctx, p, "command.json", func(ctx context.Context) ([]string, error) {
		lines, err := p.source.Diagnostic(ctx, inspect.DiagnosticCommand)
		return strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n"), err
	})
	for _, name := range []string{inspect.DiagnosticMetrics, inspect.DiagnosticGoroutines} {
		if text, err := p.source.Diagnostic(ctx, name); err != nil {
			p.miss(p.dir+name+".txt", err)
		} else {
			p.addText(p.dir+name+".txt", text)
		}
	}
	controllers, _ := readJSON(ctx, p, "controllers.json", func(ctx context.Context) ([]inspect.Controller, error) {
		all, err := p.source.Controllers(ctx)
		shown := p.visible.Controllers(ctx, all)
		if len(shown) < len(all) {
			p.miss(p.dir+"controllers.json", fmt.Errorf("%d controllers that you may not read, or whose permissions are unknown",
				len(all)-len(shown)))
		}
		return shown, err
	})
	readJSON(ctx, p, "failing.json", func(ctx context.Context) (all []failingObject, err error) {
		for i := range controllers {
			all = append(all, p.failing(ctx, &controllers[i])...)
		}
		return all, nil
	})
}

// readJSON adds what is read, and returns whether it is.
func readJSON[T any](ctx context.Context, p *process, file string, read func(context.Context) (T, error)) (T, bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := read(ctx)
	if err != nil {
		p.miss(p.dir+file, err)
		return found, false
	}
	p.addJSON(p.dir+file, found)
	return found, true
}

// failingObject is what `setpoint get` and `setpoint why` say of an object.
type failingObject struct {
	State any           `json:"state"`
	Runs  []inspect.Run `json:"runs"`
}

// failing reads some failing and conflicting objects of a controller, and their runs.
func (p *process) failing(ctx context.Context, c *inspect.Controller) (all []failingObject) {
	if c.Failing+c.Conflicting == 0 {
		return nil
	}
	for _, state := range []inspect.State{inspect.StateFailing, inspect.StateConflicting} {
		page, err := p.source.Objects(ctx, c.Name, inspect.Query{State: state, Limit: maxObjects})
		if err != nil {
			p.miss(p.dir+"failing.json", fmt.Errorf("%s: %w", c.Name, err))
			continue
		}
		more := page.Matching - len(page.Objects)
		for i := range page.Objects {
			shown := p.visible.State(ctx, page.Objects[i])
			if shown == nil {
				more++
				continue
			}
			runs, err := p.source.Runs(ctx, page.Objects[i].Ref, maxRuns)
			if err != nil {
				p.miss(p.dir+"failing.json", fmt.Errorf("runs of %s: %w", page.Objects[i].Name, err))
			}
			for j := range runs {
				runs[j] = p.visible.Run(ctx, runs[j])
			}
			all = append(all, failingObject{State: shown, Runs: runs})
		}
		if more > 0 {
			p.miss(p.dir+"failing.json", fmt.Errorf("%d of %d objects of %s that are %s, beyond the first %d or not yours to read",
				more, page.Matching, c.Name, state, maxObjects))
		}
	}
	return all
}
