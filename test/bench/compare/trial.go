package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	bench "github.com/setpoint-dev/setpoint/test/bench/internal/contender"
	"github.com/setpoint-dev/setpoint/test/bench/internal/procfs"
)

// trial is a contender at work: its processes, and what was seen of them.
type trial struct {
	contender
	env *environment
	// values are what its commands stand for here.
	values map[string]string
	// process is the operator's; hookProcess is nil where there is no hook.
	process, hookProcess *child.Process
	// peak and hookPeak are the highest that was resident, restarts included.
	peak, hookPeak int64
	namespace      string
	observed       *observed
}

func (s *environment) newTrial(ctx context.Context, c contender) (*trial, error) {
	address, err := bench.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	return &trial{contender: c, env: s, namespace: "compare-" + c.name, values: map[string]string{
		"BIN": s.bin, "HERE": filepath.Join(s.root, compareDir), "KUBECONFIG": s.kubeconfig,
		"RATES": s.rates.address, "ADDRESS": address, "HOOK": "http://" + address,
	}}, nil
}

// start starts the processes that are not running: the hook outlives the operator.
func (t *trial) start(ctx context.Context) (err error) {
	if t.hook != nil && t.hookProcess == nil {
		if err := t.startHook(ctx); err != nil {
			return err
		}
	}
	again := t.process != nil
	if t.process, err = t.launch(t.name, t.operator); err != nil {
		return err
	}
	if again || t.controller == "" {
		return nil
	}
	return t.install(ctx)
}

func (t *trial) startHook(ctx context.Context) (err error) {
	if t.hookProcess, err = t.launch(t.name+"-hook", *t.hook); err != nil {
		return err
	}
	return cluster.Poll(ctx, "the hook to respond", func() (bool, error) {
		return responds(ctx, t.values["HOOK"]), t.hookProcess.Err()
	})
}

func (t *trial) launch(name string, c command) (*child.Process, error) {
	line := c.expand(t.values)
	return child.Start(t.env.dir, name, line[0], line[1:]...)
}

// responds reports whether a server responds at the URL, with any status.
func responds(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	return err == nil && response.Body.Close() == nil
}

// install tells Setpoint what to do, as soon as it has made the kind for it, and
// waits until it does.
func (t *trial) install(ctx context.Context) error {
	object, err := os.ReadFile(filepath.Join(t.values["HERE"], t.controller))
	if err != nil {
		return fmt.Errorf("read the controller object: %w", err)
	}
	object = bytes.ReplaceAll(object, []byte("$HOOK"), []byte(t.values["HOOK"]))
	return cluster.Poll(ctx, "the controller object to become ready", func() (bool, error) {
		if err := t.process.Err(); err != nil {
			return false, err
		}
		stored, err := t.env.admin.Get(ctx, controllerPath)
		if err == nil {
			return bench.IsReady(stored)
		}
		_ = t.env.admin.Apply(ctx, controllerPath, object) // The kind may be on its way.
		return false, nil
	})
}

// kill ends the operator by force.
func (t *trial) kill() error {
	if _, err := t.read(); err != nil {
		return err
	}
	t.process.Kill()
	return nil
}

// stop ends everybody and takes the controller object away.
func (t *trial) stop() error {
	var err error
	for _, process := range []*child.Process{t.process, t.hookProcess} {
		if process != nil {
			err = errors.Join(err, process.Stop())
		}
	}
	if t.controller != "" {
		err = errors.Join(err, t.env.admin.Delete(context.Background(), controllerPath))
	}
	return err
}

// use is what the processes have used so far, and hold now.
type use struct {
	cpu, hookCPU time.Duration
	rss, hookRSS int64
}

func (t *trial) read() (use, error) {
	var u use
	if err := t.process.Err(); err != nil {
		return u, err
	}
	reading, err := procfs.Read(t.process.PID())
	if err != nil {
		return u, err
	}
	t.peak = max(t.peak, reading.Peak)
	u.cpu, u.rss = reading.CPU, reading.RSS
	hooks, err := t.hookPIDs()
	if err != nil {
		return u, err
	}
	var peak int64
	for _, pid := range hooks {
		if reading, err = procfs.Read(pid); err != nil {
			return u, err
		}
		peak += reading.Peak
		u.hookCPU += reading.CPU
		u.hookRSS += reading.RSS
	}
	t.hookPeak = max(t.hookPeak, peak)
	return u, nil
}

// hookPIDs returns the processes that have the hook: one of its own, or those that the operator
// has started.
func (t *trial) hookPIDs() ([]int, error) {
	if t.hookProcess != nil {
		return []int{t.hookProcess.PID()}, nil
	}
	children, err := procfs.Children(t.process.PID())
	var all []int
	for _, child := range children {
		all = append(all, child.PID)
	}
	return all, err
}

// At rest is who uses no more than two ticks of processor time in a second.
const (
	idleInterval = 250 * time.Millisecond
	idleSpan     = 4
	idleLimit    = 10 * time.Second
	idleCPU      = 20 * time.Millisecond
)

// awaitIdle waits until all processes are idle, so that the work's follow-ups are done
// too. It stops waiting for a contender that never becomes idle.
func (t *trial) awaitIdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	ticker := time.NewTicker(idleInterval)
	defer ticker.Stop()
	var used []time.Duration
	for {
		u, err := t.read()
		if err != nil {
			return err
		}
		used = append(used, u.cpu+u.hookCPU)
		if n := len(used); n > idleSpan && used[n-1]-used[n-1-idleSpan] <= idleCPU {
			return nil
		}
		select {
		case <-ctx.Done():
			t.env.progress("%s is still busy %s after its work was done", t.title, idleLimit)
			return nil
		case <-ticker.C:
		}
	}
}

func jsonInto(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read the API server's response: %w", err)
	}
	return nil
}
