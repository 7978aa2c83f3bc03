package contender

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
)

// metacontroller is the real one, with the webhook and the controller object of setpoint-mc.
type metacontroller struct {
	*webhooked

	// tuned removes its rate limit and gives it as many workers as the others have.
	tuned bool
}

func newMetacontroller(config Config, name string) *metacontroller {
	w := newWebhooked(setpoint{config: config, name: name, group: metacontrollerGroup})
	return &metacontroller{webhooked: w, tuned: name == Metacontroller}
}

const metacontrollerGroup = "metacontroller.k8s.io"

// metacontrollerCRD is enough for each of its kinds; %[1]s is the plural, %[2]s the kind, %[3]s the scope.
const metacontrollerCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"%[1]s.metacontroller.k8s.io","annotations":{"api-approved.kubernetes.io":"unapproved, only for the bench"}},
	"spec":{"group":"metacontroller.k8s.io","scope":"%[3]s","names":{"kind":"%[2]s","plural":"%[1]s"},
	"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":{"status":{}},
	"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

func (c *metacontroller) Start(ctx context.Context, settings Settings) (time.Duration, error) {
	if err := c.StartHook(ctx); err != nil {
		return 0, err
	}
	if err := c.installCRDs(ctx); err != nil {
		return 0, err
	}
	before, err := cluster.Count(ctx, c.config.Admin)
	if err != nil {
		return 0, err
	}
	if err := c.applyController(ctx, settings); err != nil {
		return 0, err
	}
	c.installed = true
	since := time.Now()
	if err := c.startMetacontroller(ctx); err != nil {
		return 0, err
	}
	err = c.awaitWatches(ctx, before[cluster.Watch])
	return time.Since(since), err
}

// installCRDs installs those that are missing: Setpoint has two of them, too.
func (c *metacontroller) installCRDs(ctx context.Context) error {
	for _, kind := range [][]any{
		{"compositecontrollers", "CompositeController", "Cluster"}, {"decoratorcontrollers", "DecoratorController", "Cluster"},
		{"controllerrevisions", "ControllerRevision", "Namespaced"},
	} {
		served := fmt.Sprintf("/apis/%s/v1alpha1/%s", metacontrollerGroup, kind[0])
		if _, err := c.config.Admin.Get(ctx, served); err == nil {
			continue
		}
		path := fmt.Sprintf("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/%s.%s", kind[0], metacontrollerGroup)
		if err := c.config.Admin.Apply(ctx, path, fmt.Appendf(nil, metacontrollerCRD, kind...)); err != nil {
			return err
		}
		err := cluster.Poll(ctx, served+" to be served", func() (bool, error) {
			_, err := c.config.Admin.Get(ctx, served)
			return err == nil, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *metacontroller) startMetacontroller(ctx context.Context) error {
	addresses := make([]string, 2)
	for i := range addresses {
		var err error
		if addresses[i], err = FreeAddress(ctx); err != nil {
			return err
		}
	}
	arguments := []string{
		"--kubeconfig=" + c.config.Kubeconfig, "--metrics-address=" + addresses[0], "--health-probe-bind-address=" + addresses[1],
		"--discovery-interval=20s", // As in its manifests.
	}
	if c.tuned {
		arguments = append(arguments, "--client-go-qps=100000", "--client-go-burst=100000", "--workers="+strconv.Itoa(c.config.Workers))
	}
	var err error
	c.process, err = child.Start(c.config.Dir, c.name, c.config.MetacontrollerBinary, arguments...)
	return err
}

// metacontrollerWatches are those of DecoratorControllers, ControllerRevisions, parents and ConfigMaps.
// Those of CompositeControllers are counted apart.
const metacontrollerWatches = 4

// awaitWatches waits until Metacontroller watches parents and children, the only sign that it is ready:
// its /readyz is true from the start, and a controller object has no conditions.
func (c *metacontroller) awaitWatches(ctx context.Context, before float64) error {
	err := cluster.Poll(ctx, c.name+" to watch parents and children", func() (bool, error) {
		now, err := cluster.Count(ctx, c.config.Admin)
		return now[cluster.Watch]-before >= metacontrollerWatches, errors.Join(err, c.process.Err())
	})
	if err != nil {
		return errors.Join(err, c.Stop())
	}
	return nil
}
