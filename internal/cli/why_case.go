package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// printCases prints the calls of the latest runs that made any, the newest last.
func (w *explainer) printCases(ctx context.Context) error {
	if _, err := w.permissions.read(ctx, w.ref); err != nil {
		return err
	}
	results, err := queryAll(ctx, w.session, w.query)
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
			return fmt.Errorf("run %d of %s: %w", run.ID, nameOf(w.ref), cmp.Or(w.permissions.takeErr(), err))
		}
		if texts = append(texts, text); len(texts) == w.runs {
			break
		}
	}
	if len(texts) == 0 {
		return fmt.Errorf("no call of a hook for %s is in memory", nameOf(w.ref))
	}
	for i, text := range slices.Backward(texts) {
		if i < len(texts)-1 {
			text = "---\n" + text
		}
		if _, err := fmt.Fprint(w.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// casesOf returns the calls of a run as cases.
func (w *explainer) casesOf(ctx context.Context, s inspect.Source, run inspect.Run) (string, error) {
	whole, err := inspect.QueryOne(ctx, w.timeouts, s, func(ctx context.Context, s inspect.Source) (inspect.Run, error) {
		if calls, can := s.(inspect.CallSource); can {
			return calls.RunWithTokens(ctx, run.ID)
		}
		return s.Run(ctx, run.ID)
	})
	if err != nil {
		return "", err
	}
	whole = w.permissions.redact(ctx, whole)
	return whole.Cases()
}
