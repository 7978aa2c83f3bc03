// Package contender holds those who are measured: the writes alone, the
// hand-written controller, and Setpoint through a webhook, through Go handlers,
// and through a Go Sync. A contender can be
// started, stopped, and read; what it is made to do, and what is made of the
// readings, is the scenario room's.
package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/child"
	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/procfs"
)

// The contenders.
const (
	Writes      = "writes"
	Handwritten = "handwritten"
	Setpoint    = "setpoint"
	// SetpointMC is Setpoint with a controller of the group
	// metacontroller.k8s.io.
	SetpointMC = "setpoint-mc"
	// SetpointJavaScript and SetpointStarlark are Setpoint with an inline hook.
	SetpointJavaScript = "setpoint-javascript"
	SetpointStarlark   = "setpoint-starlark"
	// GoHandler is a Go program that handles events of parents.
	GoHandler = "go-handler"
	// GoSync is a Go program that returns the desired children.
	GoSync = "go-sync"
	// SetpointRecorded is Setpoint that records all hook calls to a file.
	SetpointRecorded = "setpoint-recorded"
	// Metacontroller is the real one without its rate limit, MetacontrollerDefault with its own settings.
	Metacontroller        = "metacontroller"
	MetacontrollerDefault = "metacontroller-default"
)

// unrecorded is the suffix of contenders that run without a reconcile history.
const unrecorded = "-unrecorded"

// Contender does the reference work, or has it done.
type Contender interface {
	Name() string
	// Start returns when the contender is ready for work, with the time that
	// took.
	Start(ctx context.Context, settings Settings) (time.Duration, error)
	// Stop ends the contender in the middle of its turn: what it relies on, such
	// as its hook, stays for the Start that follows.
	Stop() error
	// Close ends its turn and leaves nothing that another would stumble over. A
	// Start may follow that too.
	Close() error
}

// Writer is a contender that is called for each write: it watches nothing.
type Writer interface {
	// Write brings children and status of all parents in line. Created says
	// that the children exist.
	Write(ctx context.Context, w load.Work, created bool, uid ParentUID) error
}

// ParentUID finds the UID of the i-th parent.
type ParentUID func(ctx context.Context, i int) (string, error)

// Process is a contender that runs as a process of its own.
type Process interface {
	Contender
	Read(ctx context.Context) (Reading, error)
	// Reads says whether the parents may read other objects, and are looked at
	// again when those change.
	Reads() bool
	// Probe looks into where its calls arrive; nil where that is closed to everything, as inline
	// hooks are.
	Probe() *probe.Client
	// Err says why the process has ended, nil while it runs.
	Err() error
}

// Hooked is a contender that asks a hook, which can be taken away from it.
type Hooked interface {
	Process
	// HookURL is where sync requests go.
	HookURL() string
	// StopHook ends the hook at once; connections to it are refused.
	StopHook() error
	// StartHook brings it back to where it was.
	StartHook(ctx context.Context) error
	// ReadProcess is Read without what only the hook can tell.
	ReadProcess() (Reading, error)
}

// Settings are what a scenario may ask of a contender.
type Settings struct {
	// Resync reconciles every parent so often; 0 does not.
	Resync time.Duration
	// Related has parents reconciled when what they read changes.
	Related bool
}

// Reading is what a contender has used so far, and holds now.
type Reading struct {
	procfs.Usage
	// HookCPU is the processor time of the hook's processes, where there are any.
	HookCPU time.Duration
	// Calls counts hook calls, or reconciles; Customized the questions for
	// related objects.
	Calls, CustomizeCalls int64
	// FirstCall and LastCall are when calls came.
	FirstCall, LastCall time.Time
}

// Config is what contenders are made of.
type Config struct {
	// Dir takes the logs.
	Dir string
	// Kubeconfig is that of the contenders' identity.
	Kubeconfig string
	// Admin is for what an administrator does: creating controller objects.
	Admin *cluster.Client
	// Self is the bench's binary, which holds the hook and the hand-written
	// controller too.
	Self string
	// SetpointBinary is the one for clusters, without a control plane.
	SetpointBinary string
	// InProcessBinary is the program written with the SDK.
	InProcessBinary string
	// MetacontrollerBinary is the real Metacontroller.
	MetacontrollerBinary string
	// Workers is how many things every contender does at once.
	Workers int
}

// New makes a contender.
func New(name string, config Config) (Contender, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("no contender %q; there are %s", name, strings.Join(Names(), ", "))
	}
	blind := Plain(name) != name
	switch Plain(name) {
	case Writes:
		return &writes{workers: config.Workers, kubeconfig: config.Kubeconfig}, nil
	case Setpoint:
		return newWebhooked(setpoint{config: config, name: name, group: "setpoint.dev", unrecorded: blind}), nil
	case SetpointRecorded:
		return newWebhooked(setpoint{config: config, name: name, group: "setpoint.dev", recorded: true}), nil
	case SetpointMC:
		return newWebhooked(setpoint{config: config, name: name, group: "metacontroller.k8s.io"}), nil
	case Metacontroller, MetacontrollerDefault:
		return newMetacontroller(config, name), nil
	case SetpointJavaScript, SetpointStarlark:
		return newInline(setpoint{config: config, name: name, group: "setpoint.dev"}), nil
	case GoHandler:
		return &inprocess{config: config, name: name, form: "handler", unrecorded: blind}, nil
	case GoSync:
		return &inprocess{config: config, name: name, form: "sync", reads: true, unrecorded: blind}, nil
	}
	return &handwritten{config: config}, nil
}

// Plain is the name of the contender that does keep accounts.
func Plain(name string) string { return strings.TrimSuffix(name, unrecorded) }

// Names lists the contenders.
func Names() []string {
	return []string{
		Writes, Handwritten, Setpoint, SetpointJavaScript, SetpointStarlark, SetpointMC, SetpointRecorded, GoHandler, GoSync,
		Metacontroller, MetacontrollerDefault, Setpoint + unrecorded, GoHandler + unrecorded, GoSync + unrecorded,
	}
}

// startProbed starts a program that says where its probe is, and waits until
// it is ready.
func startProbed(ctx context.Context, dir, name, program string, args ...string) (*child.Process, *probe.Client, error) {
	process, err := child.Start(dir, name, program, args...)
	if err != nil {
		return nil, nil, err
	}
	client, err := findProbe(ctx, process)
	if err != nil {
		return nil, nil, errors.Join(err, process.Stop())
	}
	err = cluster.Poll(ctx, name+" to become ready", func() (bool, error) {
		return client.Ready(ctx), process.Err()
	})
	if err != nil {
		return nil, nil, errors.Join(err, process.Stop())
	}
	return process, client, nil
}

func findProbe(ctx context.Context, process *child.Process) (*probe.Client, error) {
	line, err := process.FirstLine(ctx)
	if err != nil {
		return nil, err
	}
	var address probe.Address
	if err := json.Unmarshal([]byte(line), &address); err != nil {
		return nil, fmt.Errorf("read the address of the probe in %q: %w", line, err)
	}
	return &probe.Client{Base: address.URL}, nil
}

// read puts a reading together.
func read(ctx context.Context, process *child.Process, calls *probe.Client) (Reading, error) {
	if err := process.Err(); err != nil {
		return Reading{}, err
	}
	usage, err := procfs.Read(process.PID())
	if err != nil {
		return Reading{}, err
	}
	stats, err := calls.Stats(ctx)
	if err != nil {
		return Reading{}, err
	}
	return Reading{
		Usage:          usage,
		Calls:          stats.Calls,
		CustomizeCalls: stats.Customized,
		FirstCall:      stats.First,
		LastCall:       stats.Last,
	}, nil
}
