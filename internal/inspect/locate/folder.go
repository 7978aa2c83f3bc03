package locate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// ProcessEntry is what a process publishes in a folder.
type ProcessEntry struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// written is the modification time of the file.
	written time.Time
	// Address is a loopback address with a port; requests there send Token.
	Address string `json:"address"`
	Token   string `json:"token"`
}

// uniqueNames names each process. The oldest process keeps its name; the PID is added to others with the same name.
func uniqueNames(alive []ProcessEntry) map[ProcessEntry]string {
	names, taken := map[ProcessEntry]string{}, map[string]bool{}
	byAge := slices.SortedFunc(slices.Values(alive), func(a, b ProcessEntry) int {
		return cmp.Or(a.written.Compare(b.written),
			a.PID-b.PID)
	})
	for _, e := range byAge {
		name := e.Name
		if taken[name] {
			name = fmt.Sprintf("%s-%d", e.Name, e.PID)
		}
		names[e], taken[name] = name, true
	}
	return names
}

const entrySuffix = ".json"

const maxEntryBytes = 16 << 10

// Publish writes the entry of a process, which only this user may read. Calling withdraw
// removes it. The entry of a process that is killed is not listed any more.
func Publish(folder string, e ProcessEntry) (withdraw func(), err error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return publish(folder, fmt.Sprintf("%d-*%s", e.PID, entrySuffix), text)
}

// publish writes a file with a name of a pattern, which is locked until withdraw removes it.
func publish(folder, pattern string, text []byte) (withdraw func(), err error) {
	file, err := os.CreateTemp(folder, "."+pattern) // The mode is 0600, since the file may contain a token.
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	published := filepath.Join(folder, strings.TrimPrefix(filepath.Base(file.Name()), "."))
	if err = Lock(file); err == nil {
		_, err = file.Write(text)
	}
	// A rename is atomic, so no partial file is read, and none without its lock.
	if err = cmp.Or(err, os.Rename(file.Name(), published)); err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, fmt.Errorf("publish: %w", err)
	}
	return func() {
		_ = os.Remove(published)
		_ = file.Close()
	}, nil
}

// FolderSources returns a function that lists the processes in a folder, sorted by name. It
// returns the same Source for the same process each time.
func FolderSources(folder string) func(context.Context) []inspect.Source {
	f := &folderSources{folder: folder, current: map[ProcessEntry]inspect.Source{}, transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	return f.list
}

type folderSources struct {
	folder string
	// transport uses no proxy, since all addresses are local.
	transport *http.Transport

	mu      sync.Mutex
	current map[ProcessEntry]inspect.Source
}

func (s *folderSources) list(context.Context) []inspect.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := map[ProcessEntry]inspect.Source{}
	alive := readEntries(s.folder)
	called := uniqueNames(alive)
	slices.SortFunc(alive, func(a, b ProcessEntry) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.PID-b.PID, strings.Compare(a.Address, b.Address))
	})
	var found []inspect.Source
	for _, e := range alive {
		if present[e] = s.current[e]; present[e] == nil || present[e].Name() != called[e] {
			present[e] = wire.NewClient(called[e], &url.URL{Scheme: "http", Host: e.Address}, s.transport, wire.Token(e.Token))
		}
		found = append(found, present[e])
	}
	if len(present) < len(s.current) {
		s.transport.CloseIdleConnections()
	}
	s.current = present
	return found
}

// readEntries reads the entries of running processes. Other files are ignored.
func readEntries(folder string) []ProcessEntry {
	files, _ := filepath.Glob(filepath.Join(escapeGlob(folder), "[0-9]*-*"+entrySuffix)) // The pattern is valid.
	var all []ProcessEntry
	for _, file := range files {
		text, written := readPublished(file)
		e := ProcessEntry{written: written}
		if json.Unmarshal(text, &e) == nil && isLoopback(e.Address) {
			all = append(all, e)
		}
	}
	return all
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// readPublished reads a file and its time, and removes that of a process which was killed; nothing for one that cannot be read.
func readPublished(path string) (text []byte, written time.Time) {
	file, err := os.Open(path)
	if err != nil {
		return nil, written
	}
	defer func() { _ = file.Close() }()
	if !isLocked(file) {
		_ = os.Remove(path)
		return nil, written
	}
	if about, err := file.Stat(); err == nil {
		written = about.ModTime()
	}
	text, _ = io.ReadAll(io.LimitReader(file, maxEntryBytes)) // A part is no entry.
	return text, written
}

// isLoopback reports whether an address is local. The token is never sent elsewhere.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// Lock locks a file until it is closed, or returns an error if another open file holds the lock. The kernel removes the
// lock however the process ends; a PID would not do, because another process may get it.
func Lock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// IsLocked reports whether an open file holds the lock of a file. One that cannot be opened counts as locked.
func IsLocked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer func() { _ = file.Close() }()
	return isLocked(file)
}

// isLocked reports whether another open file holds the lock. It takes a shared one for a moment,
// which others that look do not notice.
func isLocked(file *os.File) bool {
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// hooksPrefix is that of the files with the addresses of hooks: one for each session in a folder.
const hooksPrefix = "hooks-"

// PublishHooks writes the local addresses of hooks as HOST=ADDRESS: local processes stand in
// for Services. Calling withdraw removes them; those of a process that was killed are not read.
func PublishHooks(folder string, routes []string) (withdraw func(), err error) {
	return publish(folder, hooksPrefix+"*", []byte(strings.Join(routes, ",")))
}

// ReadHooks returns the published addresses, separated by commas; "" for none.
func ReadHooks(folder string) string {
	files, _ := filepath.Glob(filepath.Join(escapeGlob(folder), hooksPrefix+"*")) // The pattern is valid.
	var all []string
	for _, path := range files {
		if routes, _ := readPublished(path); len(routes) > 0 {
			all = append(all, string(routes))
		}
	}
	return strings.Join(all, ",")
}

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
