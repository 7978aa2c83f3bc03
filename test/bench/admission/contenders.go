package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
)

// contender changes pods on their way, by processes of its own.
type contender struct {
	name  string
	start func(ctx context.Context, b *bench) (stop func() error, err error)
}

// baseline is who the others are compared with.
const baseline = "controller-runtime"

func contenders() []contender {
	return []contender{
		{"no webhook", func(context.Context, *bench) (func() error, error) { return func() error { return nil }, nil }},
		{baseline, func(_ context.Context, b *bench) (func() error, error) { return b.startSelf("handwritten") }},
		{"Setpoint, Go program", func(_ context.Context, b *bench) (func() error, error) { return b.startSelf("sdk") }},
		{"Setpoint, AdmissionController and hook", startController},
	}
}

// startSelf starts this program as another.
func (b *bench) startSelf(role string) (func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process, err := child.Start(b.dir, role, self, role, b.kubeconfig)
	if err != nil {
		return nil, err
	}
	return process.Stop, nil
}

const (
	controllers    = "/apis/setpoint.dev/v1alpha1/admissioncontrollers"
	controllerPath = controllers + "/bench"
)

// startController starts a hook, Setpoint, and has the one ask the other.
func startController(ctx context.Context, b *bench) (stop func() error, err error) {
	var running []*child.Process
	stop = func() error {
		err := b.client.Delete(context.Background(), controllerPath)
		for _, process := range running {
			err = errors.Join(err, process.Stop())
		}
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, command := range [][]string{
		{"hook", self, "hook", "127.0.0.1:0"},
		{"setpoint", b.options.controller, "run", "--kubeconfig", b.kubeconfig, "--address", ""},
	} {
		process, err := child.Start(b.dir, command[0], command[1], command[2:]...)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		running = append(running, process)
	}
	if err := b.applyController(ctx, running[0], running[1]); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func (b *bench) applyController(ctx context.Context, hook, setpoint *child.Process) error {
	url, err := hook.FirstLine(ctx)
	if err != nil {
		return err
	}
	type object = map[string]any
	body, err := json.Marshal(object{
		"apiVersion": "setpoint.dev/v1alpha1", "kind": "AdmissionController", "metadata": object{"name": "bench"},
		"spec": object{"webhooks": []object{{
			"name": "inject", "type": "Mutate", "failurePolicy": "Fail",
			"rules":   []object{{"apiVersion": "v1", "resource": "pods", "operations": []string{"CREATE"}}},
			"webhook": object{"url": string(bytes.TrimSpace([]byte(url)))},
		}}},
	})
	if err != nil {
		return fmt.Errorf("controller object: %w", err)
	}
	// Setpoint installs its kinds first.
	return cluster.Poll(ctx, "the kind AdmissionController", func() (bool, error) {
		if err := setpoint.Err(); err != nil {
			return false, err
		}
		return b.client.Apply(ctx, controllerPath, body) == nil, nil
	})
}
