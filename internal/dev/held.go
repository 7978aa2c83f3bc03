package dev

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
)

// held are the controllers in the manifests of a project, as they were read last.
type held struct {
	mu    sync.Mutex
	names []string
}

// has reports whether the manifests hold a controller. While a file cannot be read, what was read before counts.
func (h *held) has(paths []string, controller string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if documents, err := manifest.Read(paths); err == nil {
		h.names = nil
		for _, d := range documents {
			ref := manifest.RefOf(d.Object)
			h.names = append(h.names, strings.ToLower(ref.Kind.Kind)+"."+ref.Group+"/"+ref.Name)
		}
	}
	return slices.Contains(h.names, controller)
}

// checkHeld lets a program of an exec hook run if a file of the session has its controller. The folder of a file may
// hold anything, and a controller may come from anyone who reaches the API server.
func (s *session) checkHeld(c call.Command) error {
	if slices.ContainsFunc(s.projects, func(w *workspace) bool { return w.held.has(w.Apply, c.Controller) }) {
		return nil
	}
	return fmt.Errorf("setpoint dev runs programs only for controllers of its own files, and none of them has %s", c.Controller)
}
