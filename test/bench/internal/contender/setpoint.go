package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/procfs"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// setpoint is Setpoint with a controller object. Types that embed it have the hook.
type setpoint struct {
	config      Config
	name, group string
	// hooks is what the controller object has as hooks.
	hooks   func(Settings) map[string]any
	process *child.Process
	address string
	// unrecorded keeps no account of what is done.
	unrecorded bool
	// recorded writes all hook calls to a file.
	recorded bool
	// installed says that Setpoint has run and left its CRDs.
	installed bool
}

func (c *setpoint) Name() string { return c.name }

func (c *setpoint) Start(ctx context.Context, settings Settings) (time.Duration, error) {
	if c.installed {
		if err := c.applyController(ctx, settings); err != nil {
			return 0, err
		}
	}
	took, err := c.startSetpoint(ctx)
	if err != nil {
		return 0, err
	}
	if !c.installed {
		if err := c.applyController(ctx, settings); err != nil {
			return 0, err
		}
		c.installed = true
	}
	return took, c.waitController(ctx)
}

// startSetpoint runs the binary until /readyz says that caches are synced.
func (c *setpoint) startSetpoint(ctx context.Context) (time.Duration, error) {
	address, err := FreeAddress(ctx)
	if err != nil {
		return 0, err
	}
	c.address = address
	since := time.Now()
	arguments := []string{"run", "--kubeconfig", c.config.Kubeconfig, "--address", address, "--workers", strconv.Itoa(c.config.Workers)}
	if c.unrecorded {
		arguments = append(arguments, "--history-size=0")
	}
	if c.recorded {
		arguments = append(arguments, "--record", filepath.Join(c.config.Dir, c.name+".recording"))
	}
	c.process, err = child.Start(c.config.Dir, c.name, c.config.SetpointBinary, arguments...)
	if err != nil {
		return 0, err
	}
	err = cluster.Poll(ctx, c.name+" to become ready", func() (bool, error) {
		return respondsOK(ctx, "http://"+address+"/readyz"), c.process.Err()
	})
	if err != nil {
		return 0, errors.Join(err, c.Stop())
	}
	return time.Since(since), nil
}

func respondsOK(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

func (c *setpoint) controllerPath() string {
	return "/apis/" + c.group + "/v1alpha1/compositecontrollers/bench"
}

// applyController creates the controller object, or changes it.
func (c *setpoint) applyController(ctx context.Context, settings Settings) error {
	type object = map[string]any
	spec := object{
		"parentResource":   object{"apiVersion": thing.Group + "/" + thing.Version, "resource": thing.Resource},
		"generateSelector": true,
		"childResources": []object{{"apiVersion": "v1", "resource": "configmaps",
			"updateStrategy": object{"method": "InPlace"}}},
		"hooks": c.hooks(settings),
	}
	if settings.Resync > 0 {
		spec["resyncPeriodSeconds"] = int(settings.Resync.Seconds())
	}
	body, err := json.Marshal(object{
		"apiVersion": c.group + "/v1alpha1",
		"kind":       "CompositeController",
		"metadata":   object{"name": "bench"},
		"spec":       spec,
	})
	if err != nil {
		return fmt.Errorf("controller object: %w", err)
	}
	return c.config.Admin.Apply(ctx, c.controllerPath(), body)
}

// waitController waits until Setpoint says of the controller object, as it is
// now, that it is at work.
func (c *setpoint) waitController(ctx context.Context) error {
	var last []byte
	err := cluster.Poll(ctx, "the controller object to become ready", func() (bool, error) {
		if err := c.process.Err(); err != nil {
			return false, err
		}
		body, err := c.config.Admin.Get(ctx, c.controllerPath())
		if err != nil {
			return false, err
		}
		last = body
		return IsReady(last)
	})
	if err != nil {
		return fmt.Errorf("%w; last seen: %s", err, last)
	}
	return nil
}

// IsReady reads a controller object's conditions: whether it is at work, as it is
// now.
func IsReady(body []byte) (bool, error) {
	var object struct {
		Metadata struct {
			Generation int64 `json:"generation"`
		} `json:"metadata"`
		Status struct {
			Conditions []struct {
				Type               string `json:"type"`
				Status             string `json:"status"`
				ObservedGeneration int64  `json:"observedGeneration"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return false, fmt.Errorf("read the controller object: %w", err)
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True" && condition.ObservedGeneration == object.Metadata.Generation, nil
		}
	}
	return false, nil
}

func (c *setpoint) Stop() error {
	if c.process == nil {
		return nil
	}
	defer func() { c.process = nil }()
	return c.process.Stop()
}

func (c *setpoint) Close() error {
	err := c.Stop()
	if c.installed {
		err = errors.Join(err, c.config.Admin.Delete(context.Background(), c.controllerPath()))
	}
	return err
}

func (c *setpoint) Err() error { return c.process.Err() }

func (c *setpoint) ReadProcess() (Reading, error) {
	if err := c.process.Err(); err != nil {
		return Reading{}, err
	}
	usage, err := procfs.Read(c.process.PID())
	return Reading{Usage: usage}, err
}
