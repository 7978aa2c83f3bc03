package locate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// DevSession is a `setpoint dev`, as other commands of this user find it by their working directory.
type DevSession struct {
	PID int `json:"pid"`
	// Command is what the user typed, for messages.
	Command string `json:"command"`
	// Folders are those of its projects; Started is the folder it was started in.
	Folders []string `json:"folders"`
	Started string   `json:"started"`
	// Kubeconfig is empty as long as the session starts.
	Kubeconfig string `json:"kubeconfig"`

	path   string
	killed bool
}

// ErrNoSession means that no session belongs to a folder.
var ErrNoSession = errors.New("no session of setpoint dev")

// PublishSession lets FindSession find a session until withdraw is called. It replaces those of its folders that were killed.
func PublishSession(s DevSession) (withdraw func(), err error) {
	folder, err := userFolder("sessions")
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return nil, err
	}
	s.Started, s.Folders = resolved(s.Started), lists.Map(s.Folders, resolved)
	for _, previous := range readSessions(folder) {
		if previous.killed && slices.ContainsFunc(append(s.Folders, s.Started), previous.has) {
			_ = os.Remove(previous.path)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return publish(folder, fmt.Sprintf("%d-*%s", s.PID, entrySuffix), text)
}

// FindSession returns the session of a folder: the one with a project in it or in the nearest folder above it, or that was
// started in it. The home folder has no subfolders in this, since anything may be there. One that starts, and one that was
// killed, are errors: the command would otherwise go to another cluster.
func FindSession(dir string) (DevSession, error) {
	folder, err := userFolder("sessions")
	if err != nil {
		return DevSession{}, ErrNoSession
	}
	home, _ := os.UserHomeDir() // Without one nothing is above it.
	dir, home = resolved(dir), resolved(home)
	all := readSessions(folder)
	for at := dir; ; {
		here := lists.Filter(all, func(s DevSession) bool { return slices.Contains(s.Folders, at) || at == dir && s.Started == dir })
		if len(here) > 0 {
			return choose(at, here)
		}
		if at = filepath.Dir(at); at == home || at == filepath.Dir(at) {
			return DevSession{}, ErrNoSession
		}
	}
}

// choose returns the only session of a folder that is ready.
func choose(dir string, here []DevSession) (DevSession, error) {
	running := lists.Filter(here, func(s DevSession) bool { return !s.killed })
	ready := lists.Filter(running, func(s DevSession) bool { return s.Kubeconfig != "" })
	switch {
	case len(ready) == 1:
		return ready[0], nil
	case len(ready) > 1:
		named := lists.Map(ready, func(s DevSession) string {
			return fmt.Sprintf("%#q (process %d, kubeconfig %s)", s.Command, s.PID, s.Kubeconfig)
		})
		return DevSession{}, fmt.Errorf("%d sessions run in %s: %s", len(ready), dir, strings.Join(named, " and "))
	case len(running) > 0:
		return DevSession{}, fmt.Errorf("%#q in %s is starting (process %d), and has no cluster yet",
			running[0].Command, dir, running[0].PID)
	}
	paths := lists.Map(here, func(s DevSession) string { return s.path })
	return DevSession{}, fmt.Errorf("%#q in %s was killed (process %d); start it again, or forget it: rm %s",
		here[0].Command, dir, here[0].PID, strings.Join(paths, " "))
}

func (s *DevSession) has(dir string) bool { return s.Started == dir || slices.Contains(s.Folders, dir) }

// readSessions reads the sessions of a folder, also those that were killed.
func readSessions(folder string) (all []DevSession) {
	files, _ := filepath.Glob(filepath.Join(escapeGlob(folder), "[0-9]*-*"+entrySuffix)) // The pattern is valid.
	for _, path := range files {
		s := DevSession{path: path, killed: !IsLocked(path)}
		text, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(text, &s) == nil {
			all = append(all, s)
		}
	}
	return all
}

// resolved returns a folder without symbolic links, as far as it exists.
func resolved(dir string) string {
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		return target
	}
	return dir
}
