package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
)

// memoryPadding makes a child 1.5 KB of JSON, without managedFields and what else
// a contender adds to it, such as annotations.
const memoryPadding = 1010

// runMemory has a contender create many ConfigMaps for few parents, and then
// start again with all of them there.
func (b *Bench) runMemory(ctx context.Context, c contender.Contender) (err error) {
	process, ok := c.(contender.Process)
	if !ok || process.Probe() == nil { // Only programs know the padding.
		return nil
	}
	work := b.Memory.work()
	work.Padding = memoryPadding
	t, err := b.begin(ctx, c, work, contender.Settings{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	return t.limited(ctx, Memory, func(ctx context.Context) error { return t.memory(ctx, process) })
}

func (t *trial) memory(ctx context.Context, process contender.Process) error {
	out, err := t.phase(ctx, step{
		goal: load.Goal{Work: t.work},
		load: func(ctx context.Context) error { return t.generator.Create(ctx, t.work) },
	})
	if err != nil {
		return err
	}
	if err := process.Stop(); err != nil {
		return err
	}
	if _, err := process.Start(ctx, contender.Settings{}); err != nil {
		return err
	}
	t.awaitIdle(ctx)
	again, err := process.Read(ctx)
	if err != nil {
		return err
	}
	children := t.work.Parents * t.work.Children
	above := float64(again.RSS - t.fresh.RSS)
	t.add(memoryHead(children), map[string]float64{
		"idle":   mib(t.fresh.RSS),
		"live":   mib(out.after.RSS),
		"peak":   mib(out.after.Peak),
		"again":  mib(again.RSS),
		"apeak":  mib(again.Peak),
		"per10k": stats.Per(above, float64(children)) * 10_000 / (1 << 20),
		"bytes":  stats.Per(above, float64(children)),
	})
	return t.tracker.Check()
}

func memoryHead(children int) report.Section {
	return report.Section{
		ID:    Memory,
		Title: fmt.Sprintf("memory, %d cached ConfigMaps of 1.5 KB and what the contender adds to them", children),
		Columns: []report.Column{
			{Key: "per10k", Title: "above idle per 10,000", Unit: report.MiB, Ratio: true},
			{Key: "bytes", Title: "per object", Unit: report.Bytes},
			{Key: "idle", Title: "RSS idle", Unit: report.MiB},
			{Key: "live", Title: "after creating", Unit: report.MiB},
			{Key: "peak", Title: "peak", Unit: report.MiB},
			{Key: "again", Title: "after restart", Unit: report.MiB, Ratio: true},
			{Key: "apeak", Title: "peak", Unit: report.MiB},
		},
	}
}
