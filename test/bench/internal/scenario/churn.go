package scenario

import (
	"cmp"
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// createAndUpdate creates the parents and then gives them other values. It
// reports under the given sections.
func (t *turn) createAndUpdate(ctx context.Context, create, update string) error {
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

func (t *turn) create(ctx context.Context, section string) error {
	return t.churn(ctx, step{
		section: section,
		goal:    load.Goal{Work: t.work},
		load:    func(ctx context.Context) error { return t.generator.Create(ctx, t.work) },
		write:   func(ctx context.Context) error { return t.write(ctx, false) },
	})
}

// delete deletes the parents; the garbage collector deletes their children.
func (t *turn) delete(ctx context.Context) error {
	return t.churn(ctx, step{
		section: "delete",
		goal:    load.Goal{Work: t.work, Gone: true},
		load:    func(ctx context.Context) error { return t.generator.Delete(ctx, t.work) },
	})
}

// write has a contender without eyes do the work.
func (t *turn) write(ctx context.Context, created bool) error {
	writer, ok := t.contender.(contender.Writer)
	if !ok {
		return nil
	}
	return writer.Write(ctx, t.work, created, t.parentUID)
}

// parentUID waits for the watch to have shown a parent.
func (t *turn) parentUID(ctx context.Context, i int) (uid string, err error) {
	err = cluster.Poll(ctx, "the watch to show "+thing.Name(i), func() (seen bool, err error) {
		uid, err = t.tracker.UID(i)
		return uid != "", err
	})
	return uid, err
}

// churn measures a step and reports it under its section, if it has one.
func (t *turn) churn(ctx context.Context, s step) error {
	return t.limited(ctx, cmp.Or(s.section, "create"), func(ctx context.Context) error {
		out, err := t.phase(ctx, s)
		if err != nil {
			return err
		}
		if s.section != "" {
			t.add(t.churnHead(s.section), t.churnValues(out, s.section))
		}
		return nil
	})
}

// add puts a row into the report and a line into the progress.
func (t *turn) add(head report.Section, values map[string]float64) {
	t.bench.Report.Add(head, report.Row{Contender: t.contender.Name(), Values: values})
	first := head.Columns[0]
	t.bench.Progress(fmt.Sprintf("%s, %s: %s %s", head.Title, t.contender.Name(), first.Title, report.Format(values[first.Key], first.Unit)))
}

func (t *turn) churnHead(section string) report.Section {
	size := fmt.Sprintf("%d parents × %d", t.work.Parents, t.work.Children)
	among := fmt.Sprintf(" among %d unrelated ConfigMaps", t.bench.Unrelated)
	titles := map[string]string{
		"create":           "1 create " + size,
		"update":           "1 update " + size,
		"delete":           "1 delete " + size,
		"unrelated-create": "3 create " + size + among,
		"unrelated-update": "3 update " + size + among,
	}
	columns := append(timeColumns(), perParentColumns()...)
	return report.Section{ID: section, Title: titles[section], Columns: append(columns, memoryColumns()...)}
}

func (t *turn) churnValues(out *outcome, section string) map[string]float64 {
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
	values["idle"] = mib(t.idle.RSS)
	values["rss"] = mib(out.after.RSS)
	values["peak"] = mib(out.after.Peak)
	if section == "create" {
		values["bytes"] = stats.Per(float64(out.after.RSS-t.idle.RSS), float64(t.work.Objects()))
	}
	return values
}
