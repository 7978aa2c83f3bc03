package contender

import (
	"context"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
)

// handwritten is the controller-runtime controller: this binary, started again.
type handwritten struct {
	config  Config
	process *child.Process
	probe   *probe.Client
}

func (*handwritten) Name() string { return Handwritten }

func (c *handwritten) Start(ctx context.Context, settings Settings) (time.Duration, error) {
	since := time.Now()
	var err error
	c.process, c.probe, err = startProbed(ctx, c.config.Dir, Handwritten, c.config.Self, Handwritten,
		"-kubeconfig", c.config.Kubeconfig,
		"-workers", strconv.Itoa(c.config.Workers),
		"-related="+strconv.FormatBool(settings.Related),
		"-resync", settings.Resync.String())
	return time.Since(since), err
}

func (c *handwritten) Stop() error {
	if c.process == nil {
		return nil
	}
	defer func() { c.process = nil }()
	return c.process.Stop()
}

func (c *handwritten) Close() error         { return c.Stop() }
func (c *handwritten) Reads() bool          { return true }
func (c *handwritten) Probe() *probe.Client { return c.probe }
func (c *handwritten) Err() error           { return c.process.Err() }

func (c *handwritten) Read(ctx context.Context) (Reading, error) {
	return read(ctx, c.process, c.probe)
}
