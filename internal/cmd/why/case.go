package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// printCases prints the calls of the latest runs that made any, the newest last.
func (w *explainer) printCases(ctx context.Context) error {
	if _, err := w.Client.Read(ctx, w.ref); err != nil {
		return err
	}
	results, err := processes.QueryAll(ctx, w.Session, w.query)
	if err != nil {
		return err
	}
	var runs []inspect.Run
	sources := map[string]inspect.Source{}
	for _, known := range results {
		for _, run := range known.Value.runs {
			runs = append(runs, run)
			sources[runKey(&run)] = known.Source
		}
	}
	var texts []string
	for _, run := range timeline.Sort(runs) {
		text, err := w.casesOf(ctx, sources[runKey(&run)], run)
		switch {
		case errors.Is(err, inspect.ErrNoCall):
			continue
		case err != nil:
			return fmt.Errorf("run %d of %s: %w", run.ID, client.NameOf(w.ref), cmp.Or(w.Client.TakeErr(), err))
		}
		if texts = append(texts, text); len(texts) == w.runs {
			break
		}
	}
	if len(texts) == 0 {
		return fmt.Errorf("no call of a hook for %s is in memory", client.NameOf(w.ref))
	}
	for i, text := range slices.Backward(texts) {
		if i < len(texts)-1 {
			text = "---\n" + text
		}
		if _, err := fmt.Fprint(w.Stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// casesOf returns the calls of a run as cases.
func (w *explainer) casesOf(ctx context.Context, s inspect.Source, run inspect.Run) (string, error) {
	whole, err := inspect.QueryOne(ctx, w.Timeouts, s, func(ctx context.Context, s inspect.Source) (inspect.Run, error) {
		if calls, can := s.(inspect.CallSource); can {
			return calls.RunWithTokens(ctx, run.ID)
		}
		return s.Run(ctx, run.ID)
	})
	if err != nil {
		return "", err
	}
	whole = w.Client.Redact(ctx, whole)
	return whole.Cases()
}
