package contender

import (
	"context"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
)

// inprocess is a Go program written with Setpoint's SDK: no hook, no controller
// object, one process.
type inprocess struct {
	config Config
	name   string
	// form is the argument that selects the program's form.
	form string
	// reads says that parents may read other objects.
	reads bool
	// unrecorded keeps no account of what is done.
	unrecorded bool

	process *child.Process
	probe   *probe.Client
}

func (c *inprocess) Name() string { return c.name }

func (c *inprocess) Start(ctx context.Context, settings Settings) (time.Duration, error) {
	since := time.Now()
	var err error
	c.process, c.probe, err = startProbed(ctx, c.config.Dir, c.name, c.config.InProcessBinary, c.form,
		"-kubeconfig", c.config.Kubeconfig,
		"-workers", strconv.Itoa(c.config.Workers),
		"-related="+strconv.FormatBool(settings.Related),
		"-unrecorded="+strconv.FormatBool(c.unrecorded),
		"-resync", settings.Resync.String())
	return time.Since(since), err
}

func (c *inprocess) Stop() error {
	if c.process == nil {
		return nil
	}
	defer func() { c.process = nil }()
	return c.process.Stop()
}

func (c *inprocess) Close() error         { return c.Stop() }
func (c *inprocess) Reads() bool          { return c.reads }
func (c *inprocess) Probe() *probe.Client { return c.probe }
func (c *inprocess) Err() error           { return c.process.Err() }

func (c *inprocess) Read(ctx context.Context) (Reading, error) {
	return read(ctx, c.process, c.probe)
}
