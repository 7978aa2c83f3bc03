package scenario

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// createAndUpdate creates the parents and then gives them other values. It
// reports under the given sections.
func (t *trial) createAndUpdate(ctx context.Context, create, update string) error {
	if err := t.create(ctx, create); err != nil {
		return err
	}
	t.work.Round = "two"
	return t.churn(ctx, step{
		section: update,
		goal:    load.Goal{Work: t.work},
		load:    func(ctx context.Context) error { return t.generator.Change(ctx, t.work) },
		write:   func(ctx context.Context) error { return t.write(ctx, true) },
	})
}

func (t *trial) create(ctx context.Context, section string) error {
	return t.churn(ctx, step{
		section: section,
		goal:    load.Goal{Work: t.work},
		load:    func(ctx context.Context) error { return t.generator.Create(ctx, t.work) },
		write:   func(ctx context.Context) error { return t.write(ctx, false) },
	})
}

// delete deletes the parents; the garbage collector deletes their children.
func (t *trial) delete(ctx context.Context, section string) error {
	return t.churn(ctx, step{
		section: section,
		goal:    load.Goal{Work: t.work, Gone: true},
		load:    func(ctx context.Context) error { return t.generator.Delete(ctx, t.work) },
	})
}

// write has a contender without eyes do the work.
func (t *trial) write(ctx context.Context, created bool) error {
	writer, ok := t.contender.(contender.Writer)
	if !ok {
		return nil
	}
	return writer.Write(ctx, t.work, created, t.parentUID)
}

// parentUID waits for the watch to have shown a parent.
func (t *trial) parentUID(ctx context.Context, i int) (uid string, err error) {
	err = cluster.Poll(ctx, "the watch to show "+thing.Name(i), func() (seen bool, err error) {
		uid, err = t.tracker.UID(i)
		return uid != "", err
	})
	return uid, err
}

// churn measures a step and reports it under its section, if it has one.
func (t *trial) churn(ctx context.Context, s step) error {
	return t.limited(ctx, cmp.Or(s.section, "create"), func(ctx context.Context) error {
		out, err := t.phase(ctx, s)
		if err != nil {
			return err
		}
		if s.section != "" {
			t.add(t.churnHead(s.section), t.churnValues(out, s.section))
			t.bench.Report.Add(processorHead(s.section, t.churnTitle(s.section)), t.processorRow(out))
		}
		return nil
	})
}

// add puts a row into the report and a line into the progress.
func (t *trial) add(head report.Section, values map[string]float64) {
	t.bench.Report.Add(head, report.Row{Contender: t.contender.Name(), Values: values})
	first := head.Columns[0]
	t.bench.Progress(fmt.Sprintf("%s, %s: %s %s", head.Title, t.contender.Name(), first.Title,
		report.Format(values[first.Key], first.Unit)))
}

// churnTitle tells what a section is about. Its first word is what is done.
func (t *trial) churnTitle(section string) string {
	what, rest, _ := strings.Cut(section, "-")
	if what == Unrelated {
		return fmt.Sprintf("3 %s %s among %d unrelated ConfigMaps", rest, t.size().title(), t.bench.Unrelated)
	}
	return fmt.Sprintf("1 %s %s", what, t.size().title())
}

func (t *trial) churnHead(section string) report.Section {
	columns := append(timeColumns(), perParentColumns()...)
	return report.Section{ID: section, Title: t.churnTitle(section), Columns: append(columns, memoryColumns()...)}
}

func (t *trial) churnValues(out *outcome, section string) map[string]float64 {
	parents := float64(t.work.Parents)
	values := map[string]float64{
		"time":   out.converged.Seconds(),
		"loaded": out.loaded.Seconds(),
	}
	addRequests(values, out.requests, parents)
	if _, ok := t.contender.(contender.Process); !ok {
		return values
	}
	addUse(values, out, parents)
	values["idle"] = mib(t.fresh.RSS)
	values["rss"] = mib(out.after.RSS)
	values["peak"] = mib(out.after.Peak)
	if strings.HasPrefix(section, "create") {
		values["bytes"] = stats.Per(float64(out.after.RSS-t.fresh.RSS), float64(t.work.Objects()))
	}
	return values
}
