package dashboard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// How long a process may take to say what it knows; the others are shown without it
// then. A plan may take longer, since others are asked for it.
const (
	sourceTimeout = 5 * time.Second
	planTimeout   = 70 * time.Second
)

// processInfo is what one process said.
type processInfo struct {
	Source      model.Source
	Process     model.Process
	Controllers []model.Controller
	// Err is why it said nothing.
	Err error
}

// Unavailable says that nothing is known of the process.
func (t processInfo) Unavailable() string { return unavailableMessage(t.Source, t.Err) }

// unavailableMessage says that a process did not answer, and what that means for a page.
func unavailableMessage(of model.Source, err error) string {
	text := "Process " + of.Name() + " did not respond in time."
	switch {
	case errors.Is(err, context.DeadlineExceeded):
	case strings.HasPrefix(err.Error(), "the process "+of.Name()):
		text = capitalize(err.Error()) + "."
	default:
		text = "Process " + of.Name() + " did not respond: " + err.Error() + "."
	}
	return text + " Its controllers are not shown. Check that it runs, and its log."
}

// fetchProcesses asks all processes how they are doing, all at once.
func (req *request) fetchProcesses() []processInfo {
	answers := model.QueryAll(req.context(), req.patience, req.options.Sources(req.context()), fetchProcess)
	all := make([]processInfo, len(answers))
	for i, a := range answers {
		all[i] = a.Value
		all[i].Source, all[i].Err = a.Source, a.Err
	}
	return all
}

func fetchProcess(ctx context.Context, source model.Source) (t processInfo, err error) {
	if t.Process, err = source.Process(ctx); err != nil {
		return t, err
	}
	t.Controllers, err = source.Controllers(ctx)
	return t, err
}

// source is the process of a name.
func (req *request) source(process string) (model.Source, error) {
	for _, source := range req.options.Sources(req.context()) {
		if source.Name() == process {
			return source, nil
		}
	}
	return nil, notFound("Process %s is not known, or has stopped.", process)
}

// fetchAll asks all processes for what they know, all at once, and says why something of it
// may be missing.
func fetchAll[T any](req *request, call func(context.Context, model.Source) (T, error)) (found []T, missing []string) {
	for _, a := range model.QueryAll(req.context(), req.patience, req.options.Sources(req.context()), call) {
		switch {
		case a.Err == nil:
			found = append(found, a.Value)
		case !errors.Is(a.Err, model.ErrNotFound):
			missing = append(missing, unavailableMessage(a.Source, a.Err))
		}
	}
	return found, missing
}

// processOf is what a process says of itself.
func (req *request) processOf(source model.Source) (model.Process, error) {
	return model.QueryOne(req.context(), req.patience, source, func(ctx context.Context, s model.Source) (model.Process, error) {
		return s.Process(ctx)
	})
}

// controllersOf are all controllers of a process.
func (req *request) controllersOf(source model.Source) ([]model.Controller, error) {
	return model.QueryOne(req.context(), req.patience, source, func(ctx context.Context, s model.Source) ([]model.Controller, error) {
		return s.Controllers(ctx)
	})
}

// objectStates are all who care for an object, and how it is doing in the care of each, as far
// as the visitor may read it, and why some of that may be missing.
func (req *request) objectStates(ref model.Ref) (states []model.ObjectState, missing []string) {
	found, missing := fetchAll(req, func(ctx context.Context, s model.Source) ([]model.ObjectState, error) { return s.States(ctx, ref) })
	for _, state := range slices.Concat(found...) {
		states = append(states, model.RedactState(state, req.canRead))
	}
	return states, missing
}
