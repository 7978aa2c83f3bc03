package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/api"
	"github.com/setpoint-dev/setpoint/controlplane/internal/datadir"
	"github.com/setpoint-dev/setpoint/controlplane/internal/names"
	"github.com/setpoint-dev/setpoint/controlplane/internal/pki"
	"github.com/setpoint-dev/setpoint/controlplane/internal/port"
	"github.com/setpoint-dev/setpoint/internal/process"
)

const (
	// startLimit ends a start that hangs. One that works takes seconds, and minutes on a
	// machine that is busy with other things.
	startLimit = 10 * time.Minute
	// stopLimit is for taking down what a failed start has put up.
	stopLimit = 3 * time.Second
)

// Start boots a cluster and returns once the API responds, the controllers run and the
// nodes accept pods. The cluster runs until Stop or until this process ends; ctx bounds
// only the start.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := StartAPI(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := c.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, c.giveUp(ctx))
	}
	return c, nil
}

// StartAPI is Start without its last part: it returns once the API responds and the other
// components have been started. The caller installs its own objects meanwhile, then calls
// AwaitReady.
func StartAPI(ctx context.Context, opts Options) (_ *Cluster, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return nil, err
	}
	var programs binaries
	if opts.KubernetesBinaries != "" {
		if programs, err = findBinaries(opts.KubernetesBinaries); err != nil {
			return nil, err
		}
	}
	dir, err := datadir.Open(opts.DataDir)
	if err != nil {
		return nil, err
	}
	reaper, err := process.NewReaper()
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	c := &Cluster{opts: opts, binaries: programs, dir: dir, reaper: reaper, ports: map[string]*port.Reservation{},
		done: make(chan struct{})}

	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.start(ctx); err != nil {
		if !errors.Is(err, context.Canceled) {
			c.end(err)
		}
		return nil, errors.Join(err, c.giveUp(ctx))
	}
	return c, nil
}

// giveUp takes down what a failed start has put up.
func (c *Cluster) giveUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return c.Stop(ctx)
}

func (c *Cluster) start(ctx context.Context) error {
	report := &reporter{begin: c.opts.Progress}
	if err := report.phase("certificates", c.prepare); err != nil {
		return err
	}
	// The API server takes longest to get going and needs etcd only after most
	// of its own preparations, so the two start together.
	for _, component := range []string{names.Etcd, names.APIServer} {
		if err := c.launch(c.specOf(component)); err != nil {
			return err
		}
	}
	if err := report.phase(names.Etcd, func() error { return c.await(ctx, names.Etcd, c.etcdReady) }); err != nil {
		return err
	}
	if err := report.phase(names.APIServer, func() error { return c.await(ctx, names.APIServer, c.ready(names.APIServer)) }); err != nil {
		return err
	}
	return c.startControllers(ctx)
}

// startControllers starts everything that is a client of the API server.
func (c *Cluster) startControllers(ctx context.Context) error {
	if err := c.authorizeKwok(ctx); err != nil {
		return err
	}
	for _, component := range []string{names.ControllerManager, names.Scheduler, names.Kwok} {
		if err := c.launch(c.specOf(component)); err != nil {
			return err
		}
	}
	return nil
}

// AwaitReady waits until the controllers run and the nodes accept pods. If they do not, the
// cluster has failed; the caller stops it.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	report := &reporter{begin: c.opts.Progress}
	err := report.phases(map[string]func() error{
		names.ControllerManager: func() error { return c.await(ctx, names.ControllerManager, c.controllersReady) },
		names.Scheduler:         func() error { return c.await(ctx, names.Scheduler, c.ready(names.Scheduler)) },
		"nodes":                 func() error { return c.bringUpNodes(ctx) },
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		c.end(err)
	}
	return err
}

// prepare puts everything in place that the components find when they start.
func (c *Cluster) prepare() error {
	if err := c.reservePorts(); err != nil {
		return err
	}
	c.credentials = credentials{c.dir, c.Address()}
	authority, err := c.credentials.write()
	if err != nil {
		return err
	}
	if err := c.writeAdmin(authority); err != nil {
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
	for _, component := range []string{names.APIServer, names.ControllerManager, names.Scheduler} {
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
	for _, component := range names.All() {
		log := c.logFile(component)
		if err := os.Rename(log, log+".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set log aside: %w", err)
		}
	}
	return nil
}

func (c *Cluster) etcdReady(context.Context) error {
	_, err := os.Stat(c.etcdReadyFile())
	return err
}

// controllersReady holds when the controllers have shown that they work: the
// default namespace has the ServiceAccount without which no pod is admitted.
func (c *Cluster) controllersReady(ctx context.Context) error {
	if err := c.ready(names.ControllerManager)(ctx); err != nil {
		return err
	}
	return c.admin.Get(ctx, c.Address()+"/api/v1/namespaces/default/serviceaccounts/default", nil)
}

func (c *Cluster) writeAdmin(authority *pki.Authority) error {
	pair, err := authority.Client(adminUser, "system:masters")
	if err != nil {
		return err
	}
	path := c.opts.Kubeconfig
	if path == "" {
		path = c.dir.Path("kubeconfig")
	}
	if err := datadir.WriteFile(path, c.credentials.encode(authority, adminUser, pair)); err != nil {
		return err
	}
	c.kubeconfig = path
	c.admin, err = api.New(authority.Cert, pair)
	return err
}
