package dev

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
)

// exits are the processes that have exited and do not run again yet.
type exits struct {
	mu     sync.Mutex
	byName map[string]processes.Exit
}

// add notes how a process ended.
func (e *exits) add(process string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byName == nil {
		e.byName = map[string]processes.Exit{}
	}
	e.byName[process] = processes.Exit{Process: process, Text: err.Error(), At: time.Now()}
}

// remove notes that a process runs again.
func (e *exits) remove(process string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byName, process)
}

// list returns the exits, sorted by process.
func (e *exits) list() []processes.Exit {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []processes.Exit
	for _, each := range e.byName {
		all = append(all, each)
	}
	slices.SortFunc(all, func(a, b processes.Exit) int { return strings.Compare(a.Process, b.Process) })
	return all
}
