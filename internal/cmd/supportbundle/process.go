package supportbundle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

const (
	// requestTimeout is that of one request.
	requestTimeout = 15 * time.Second
	// maxObjects and maxRuns are the most failing objects of one controller, and runs of one object.
	maxObjects = 10
	maxRuns    = 5
)

// process reads what one process says of itself, as far as the user may read it.
type process struct {
	*archive

	source inspect.Source
	user   *client.Client
	dir    string
}

func (p *process) read(ctx context.Context) {
	if _, err := addRead(ctx, p, "process.json", p.source.Process); err != nil {
		return // It does not respond.
	}
	// A flag says whether the next argument is a secret.
	_, _ = addRead(ctx, p, "command.json", func(ctx context.Context) ([]string, error) {
		lines, err := p.source.Diagnostic(ctx, inspect.DiagnosticCommand)
		return strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n"), err
	})
	for _, name := range []string{inspect.DiagnosticMetrics, inspect.DiagnosticGoroutines} {
		text, err := p.source.Diagnostic(ctx, name)
		p.addText(p.dir+name+".txt", text, err)
	}
	controllers, _ := addRead(ctx, p, "controllers.json", func(ctx context.Context) ([]inspect.Controller, error) {
		all, err := p.source.Controllers(ctx)
		shown, hidden := p.user.Controllers(ctx, all)
		if hidden > 0 {
			p.miss(p.dir+"controllers.json", fmt.Errorf("%d controllers that you may not read, or whose permissions are unknown", hidden))
		}
		return shown, err
	})
	_, _ = addRead(ctx, p, "failing.json", func(ctx context.Context) (all []failingObject, err error) {
		for _, c := range controllers {
			if c.Failing+c.Conflicting > 0 {
				all = append(all, p.failing(ctx, c.Name, inspect.StateFailing)...)
				all = append(all, p.failing(ctx, c.Name, inspect.StateConflicting)...)
			}
		}
		return all, nil
	})
}

// addRead adds what is read, and returns it.
func addRead[T any](ctx context.Context, p *process, file string, read func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := read(ctx)
	p.addJSON(p.dir+file, found, err)
	return found, err
}

// failingObject is what `setpoint get` and `setpoint why` say of an object.
type failingObject struct {
	State client.VisibleState `json:"state"`
	Runs  []inspect.Run       `json:"runs"`
}

// failing reads some objects of a controller in a state, and their runs.
func (p *process) failing(ctx context.Context, controller string, state inspect.State) (all []failingObject) {
	miss := func(format string, args ...any) { p.miss(p.dir+"failing.json", fmt.Errorf(format, args...)) }
	page, err := p.source.Objects(ctx, controller, inspect.Query{State: state, Limit: maxObjects})
	if err != nil {
		miss("%s: %w", controller, err)
	}
	for _, o := range page.Objects {
		if !p.user.Can(ctx, "get", o.Kind, o.Namespace, o.Name) {
			continue
		}
		runs, err := p.source.Runs(ctx, o.Ref, maxRuns)
		if err != nil {
			miss("runs of %s: %w", o.Name, err)
		}
		for i := range runs {
			runs[i] = p.user.Redact(ctx, runs[i])
		}
		all = append(all, failingObject{p.user.State(ctx, o), runs})
	}
	if more := page.Matching - len(all); more > 0 {
		miss("%d of %d objects of %s that are %s, beyond the first %d or not yours to read", more, page.Matching, controller, state,
			maxObjects)
	}
	return all
}
