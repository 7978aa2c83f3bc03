package cli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/call/inline"
	execprogram "github.com/setpoint-dev/setpoint/internal/call/program"
	"github.com/setpoint-dev/setpoint/internal/dev"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// hookProcesses configure the processes of inline and exec hooks.
type hookProcesses struct {
	// memory is the limit of the code of an inline hook, such as "128Mi".
	memory string
	// execDirs are the directories of programs; none if exec hooks are not allowed.
	execDirs []string
	// log receives what hooks print; the log of the manager if nil.
	log *slog.Logger
	// opener opens the programs of execDirs.
	opener execprogram.Opener
}

const (
	defaultHookMemory = "128Mi"
	// leastHookMemory is what an engine needs for small code.
	leastHookMemory = 16 << 20
)

func (h *hookProcesses) register(set *pflag.FlagSet) {
	h.registerMemory(set)
	h.registerExec(set)
}

func (h *hookProcesses) registerMemory(set *pflag.FlagSet) {
	set.StringVar(&h.memory, "inline-hook-max-memory", defaultHookMemory,
		"maximum memory of a process that runs an inline hook, in `bytes`, above what it needs to start")
}

func (h *hookProcesses) registerExec(set *pflag.FlagSet) {
	set.StringArrayVar(&h.execDirs, "exec-hooks", nil,
		"`DIR` with the programs that exec hooks may run (repeatable; default: exec hooks are refused)")
}

// check validates the flags.
func (h *hookProcesses) check() error {
	if err := h.checkExec(); err != nil || h.memory == "" {
		return err
	}
	memory, err := manager.ParseBytes(h.memory)
	if err != nil {
		return fmt.Errorf("--inline-hook-max-memory %w", err)
	}
	if memory < leastHookMemory {
		return errors.New("--inline-hook-max-memory must be at least 16Mi")
	}
	return nil
}

func (h *hookProcesses) checkExec() error {
	for _, dir := range h.execDirs {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("--exec-hooks: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("--exec-hooks: %s is not a directory", dir)
		}
	}
	return nil
}

// addTo lets a manager call inline and exec hooks.
func (h *hookProcesses) addTo(o *manager.Options) error {
	if err := h.check(); err != nil {
		return usageError{err}
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which runs inline hooks: %w", err)
	}
	memory, _ := manager.ParseBytes(cmp.Or(h.memory, defaultHookMemory)) // check has parsed it.
	dirs, err := absolute(h.execDirs)
	if err != nil {
		return err
	}
	limiter, reviews, log := child.NewLimiter(0), child.NewLimiter(0), cmp.Or(h.log, o.Log)
	compiler := inline.Compiler{
		Command:     []string{executable, engineCommand, fmt.Sprint("--memory=", memory)},
		MemoryBytes: int64(memory), Limiter: limiter, ReviewLimiter: reviews, Log: log,
	}
	o.Inline, o.HookProcesses = compiler.Compile, func() map[string]child.Figures { return child.FiguresOf(limiter, reviews) }
	if len(dirs) > 0 {
		h.opener.Dirs, h.opener.Limiter, h.opener.ReviewLimiter, h.opener.Log = dirs, limiter, reviews, log
		o.Exec = h.opener.Open
	}
	return nil
}

func absolute(dirs []string) ([]string, error) {
	var all []string
	for _, dir := range dirs {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", dir, err)
		}
		if !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all, nil
}

// callHooks lets the manager of a session call inline hooks, and exec hooks in the folders that the
// session runs, of the controllers in its files. What they print is shown at any log level.
func callHooks(o *dev.Options) {
	h := &hookProcesses{execDirs: slices.Clone(o.Dirs), log: flags.NewLog(o.Reporter.Writer("hook"), flags.Brief, "info")}
	for _, file := range o.Manifests {
		h.execDirs = append(h.execDirs, filepath.Dir(file))
	}
	h.opener.WatchHelpers, o.Programs = true, &h.opener
	o.NewManager = func(options manager.Options) (dev.Manager, error) {
		if err := h.addTo(&options); err != nil {
			return nil, err
		}
		return manager.New(options)
	}
}
