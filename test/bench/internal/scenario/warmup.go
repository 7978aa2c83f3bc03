package scenario

import (
	"context"
	"errors"

	"github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/report"
)

// warmUpParents is enough for every code path to have been taken.
const warmUpParents = 200

// WarmUp runs every contender once, so that the first one measured has no
// disadvantage. It ends when garbage of the new kind is collected: the collector
// discovers new kinds every 30 seconds only.
func (b *Bench) WarmUp(ctx context.Context, contenders []contender.Contender) error {
	unseen := *b
	unseen.Report = &report.Report{}
	unseen.Progress = func(string) {}
	defer func() { b.trials = unseen.trials }()
	for i, c := range contenders {
		if err := unseen.warmUp(ctx, c, i == len(contenders)-1); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) warmUp(ctx context.Context, c contender.Contender, last bool) (err error) {
	size := b.Sizes[0]
	size.Parents = min(size.Parents, warmUpParents)
	t, err := b.begin(ctx, c, size.work(), contender.Settings{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	if err := t.createAndUpdate(ctx, "create", "update"); err != nil || !last {
		return err
	}
	return t.delete(ctx, "delete")
}
