package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/api"
	"github.com/setpoint-dev/setpoint/controlplane/internal/datadir"
	"github.com/setpoint-dev/setpoint/controlplane/internal/kubeconfig"
	"github.com/setpoint-dev/setpoint/controlplane/internal/names"
	"github.com/setpoint-dev/setpoint/controlplane/internal/port"
	"github.com/setpoint-dev/setpoint/controlplane/internal/supervise"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// Cluster is a running control plane.
type Cluster struct {
	opts     Options
	binaries binaries
	dir      *datadir.Dir
	// reaper kills the components when this process ends.
	reaper *process.Reaper
	ports  map[string]*port.Reservation
	admin  *api.Client

	credentials credentials
	kubeconfig  string

	mu        sync.Mutex
	processes []*supervise.Process // in the order in which they were started

	stopOnce sync.Once
	stopErr  error
	done     chan struct{}
	failOnce sync.Once
	failure  error // set before done is closed
}

// Component is one process of the control plane.
type Component struct {
	Name     string
	PID      int // 0 while it waits for its restart
	Log      string
	Restarts int
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Address is the URL of the API server.
func (c *Cluster) Address() string { return c.url(names.APIServer) }

// DataDir is the directory the cluster lives in.
func (c *Cluster) DataDir() string { return c.dir.Path() }

// Components lists the processes, in the order in which they were started.
func (c *Cluster) Components() []Component {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Component, 0, len(c.processes))
	for _, p := range c.processes {
		pid, restarts := p.State()
		list = append(list, Component{Name: p.Name(), PID: pid, Log: p.Log(), Restarts: restarts})
	}
	return list
}

// Done is closed when the cluster has stopped or a component failed for good. Err tells
// which.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err is, after Done, the reason why the cluster failed, and nil if it was
// stopped.
func (c *Cluster) Err() error {
	select {
	case <-c.done:
		return c.failure
	default:
		return nil
	}
}

// Stop ends the components, the dependent ones first, and removes what a
// throw-away cluster has left on disk. It takes less than three seconds, and may
// be called more than once.
func (c *Cluster) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { c.stopErr = c.stop(ctx) })
	return c.stopErr
}

// stop ends everything but etcd together; etcd last, so that the others' last
// writes are on disk.
func (c *Cluster) stop(ctx context.Context) error {
	c.end(nil)
	c.mu.Lock()
	processes := slices.Clone(c.processes)
	c.mu.Unlock()

	var errs []error
	if len(processes) > 0 {
		errs = append(errs, stopAll(ctx, processes[1:]), stopAll(ctx, processes[:1]))
	}
	c.reaper.Close() // whatever could not be stopped is killed here
	for _, reservation := range c.ports {
		reservation.Release()
	}
	if c.admin != nil {
		c.admin.Close()
	}
	if c.dir.Temporary() && c.kubeconfig != "" {
		errs = append(errs, kubeconfig.Remove(c.kubeconfig, c.Address()))
	}
	return errors.Join(append(errs, c.closeDir())...)
}

// closeDir keeps even a temporary directory when the cluster has failed: the error
// names the logs in it. The next cluster that starts removes it.
func (c *Cluster) closeDir() error {
	if c.failure != nil {
		c.dir.Unlock()
		return nil
	}
	return c.dir.Close()
}

func stopAll(ctx context.Context, processes []*supervise.Process) error {
	errs := make([]error, len(processes))
	var wait sync.WaitGroup
	for i, process := range processes {
		wait.Go(func() { errs[i] = process.Stop(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// end records how the cluster came to its end; the first one counts.
func (c *Cluster) end(failure error) {
	c.failOnce.Do(func() {
		c.failure = failure
		close(c.done)
	})
}

// launch starts a component and watches over its fate.
func (c *Cluster) launch(spec supervise.Spec) error {
	process, err := supervise.Start(spec, c.reaper, c.opts.Log)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.processes = append(c.processes, process)
	c.mu.Unlock()
	go func() {
		<-process.Done()
		if err := process.Err(); err != nil {
			c.end(err)
		}
	}()
	return nil
}

// pollInterval is the time between two checks of await.
const pollInterval = 20 * time.Millisecond

// await polls until check succeeds. It gives up when the cluster does, or with
// the context, and then says which component it was waiting for, what was last
// heard of it, and what it logged.
func (c *Cluster) await(ctx context.Context, component string, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-c.done:
			return c.failure
		case <-ctx.Done():
			log := c.logFile(component)
			return fmt.Errorf("wait for %s: %w (last heard: %w); its log is %s, which ends:\n%s",
				component, context.Cause(ctx), err, log, supervise.Tail(log))
		}
	}
}

func (c *Cluster) url(component string) string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.ports[component].Number())
}

func (c *Cluster) logFile(component string) string { return c.dir.Path("logs", component+".log") }
