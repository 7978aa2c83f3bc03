package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/datadir"
	"github.com/setpoint-dev/setpoint/controlplane/internal/lifeline"
	"github.com/setpoint-dev/setpoint/controlplane/internal/port"
	"github.com/setpoint-dev/setpoint/controlplane/internal/roster"
)

const (
	pollInterval = 20 * time.Millisecond
	// startLimit ends a start that hangs. One that works takes seconds, and minutes on a
	// machine that is busy with other things.
	startLimit = 10 * time.Minute
	// stopLimit is for taking down what a failed start has put up.
	stopLimit = 3 * time.Second
)

// Start boots a cluster and returns once the API responds, the controllers run and the
// nodes accept pods. The cluster runs until Stop or until this process ends; ctx bounds
// only the start.
func Start(ctx context.Context, opts Options) (_ *Cluster, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, err := datadir.Open(opts.DataDir)
	if err != nil {
		return nil, err
	}
	line, err := lifeline.New()
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	c := &Cluster{opts: opts, dir: dir, lifeline: line, ports: map[string]*port.Reservation{}, done: make(chan struct{})}

	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.start(ctx); err != nil {
		if !errors.Is(err, context.Canceled) {
			c.end(err)
		}
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		return nil, errors.Join(err, c.Stop(stopping))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	report := &reporter{begin: c.opts.Progress}
	if err := report.phase("certificates", c.prepare); err != nil {
		return err
	}
	// The API server takes longest to get going and needs etcd only after most
	// of its own preparations, so the two start together.
	for _, component := range []string{roster.Etcd, roster.APIServer} {
		if err := c.launch(c.spec(component)); err != nil {
			return err
		}
	}
	if err := report.phase(roster.Etcd, func() error { return c.await(ctx, roster.Etcd, c.etcdReady) }); err != nil {
		return err
	}
	if err := report.phase(roster.APIServer, func() error { return c.await(ctx, roster.APIServer, c.ready(roster.APIServer)) }); err != nil {
		return err
	}
	return c.startControllers(ctx, report)
}

// startControllers starts everything that is a client of the API server.
func (c *Cluster) startControllers(ctx context.Context, report *reporter) error {
	if err := c.authorizeKwok(ctx); err != nil {
		return err
	}
	for _, component := range []string{roster.ControllerManager, roster.Scheduler, roster.Kwok} {
		if err := c.launch(c.spec(component)); err != nil {
			return err
		}
	}
	return report.phases(map[string]func() error{
		roster.ControllerManager: func() error { return c.await(ctx, roster.ControllerManager, c.controllersReady) },
		roster.Scheduler:         func() error { return c.await(ctx, roster.Scheduler, c.ready(roster.Scheduler)) },
		"nodes":                  func() error { return c.bringUpNodes(ctx) },
	})
}

// prepare puts everything in place that the components find when they start.
func (c *Cluster) prepare() error {
	if err := c.reservePorts(); err != nil {
		return err
	}
	if err := c.writeCredentials(); err != nil {
		return err
	}
	if err := c.writeStages(); err != nil {
		return err
	}
	if err := os.Remove(c.etcdReadyFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove trace of the previous run: %w", err)
	}
	return c.rotateLogs()
}

func (c *Cluster) reservePorts() error {
	numbers := map[string]int{}
	for _, component := range []string{roster.APIServer, roster.ControllerManager, roster.Scheduler} {
		reservation, err := port.Reserve(c.dir.Port(component))
		if err != nil {
			return fmt.Errorf("%s: %w", component, err)
		}
		c.ports[component] = reservation
		numbers[component] = reservation.Number()
	}
	return c.dir.RememberPorts(numbers)
}

// rotateLogs keeps the logs of the previous run, and only of that one.
func (c *Cluster) rotateLogs() error {
	for _, component := range roster.All() {
		log := c.logFile(component)
		if err := os.Rename(log, log+".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set log aside: %w", err)
		}
	}
	return nil
}
