package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/wire"
)

// ProcessEntry is what a process publishes of itself in a folder.
type ProcessEntry struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// written is when it said so, of one that was read.
	written time.Time
	// Address is a host and a port, the host being one of loopback, and Token what
	// must be shown there.
	Address string `json:"address"`
	Token   string `json:"token"`
}

// uniqueNames gives each process a name of its own: of several with the same name, the one
// that has been there for the longest keeps it, and the others are known by their PID too.
func uniqueNames(alive []ProcessEntry) map[ProcessEntry]string {
	names, taken := map[ProcessEntry]string{}, map[string]bool{}
	byAge := slices.SortedFunc(slices.Values(alive), func(a, b ProcessEntry) int { return cmp.Or(a.written.Compare(b.written), a.PID-b.PID) })
	for _, e := range byAge {
		name := e.Name
		if taken[name] {
			name = fmt.Sprintf("%s-%d", e.Name, e.PID)
		}
		names[e], taken[name] = name, true
	}
	return names
}

// entrySuffix is that of the files of a folder which count.
const entrySuffix = ".json"

// maxEntryBytes is how long such a file may be, in bytes.
const maxEntryBytes = 16 << 10

// Publish says in a folder where a process is, to whoever may read files of this user.
// What it returns takes that back.
func Publish(folder string, e ProcessEntry) (withdraw func(), err error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(folder, fmt.Sprintf("%d-*", e.PID)) // 0600, of which the token is in need.
	if err != nil {
		return nil, fmt.Errorf("publish where to inspect: %w", err)
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Close())
	// Nobody reads a file that is half written.
	if err = cmp.Or(err, os.Rename(file.Name(), file.Name()+entrySuffix)); err != nil {
		_ = os.Remove(file.Name())
		return nil, fmt.Errorf("publish where to inspect: %w", err)
	}
	return func() { _ = os.Remove(file.Name() + entrySuffix) }, nil
}

// FolderSources returns what finds the processes that a folder names at present, sorted by
// name. They are the same Sources from one time to the next.
func FolderSources(folder string) func(context.Context) []model.Source {
	f := &folderSources{folder: folder, current: map[ProcessEntry]model.Source{}, transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	return f.list
}

// folderSources are the Sources of a folder.
type folderSources struct {
	folder string
	// transport asks no proxy: all of this is on this machine.
	transport *http.Transport

	mu      sync.Mutex
	current map[ProcessEntry]model.Source
}

func (s *folderSources) list(context.Context) []model.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := map[ProcessEntry]model.Source{}
	alive, dead := splitByLiveness(readEntries(s.folder))
	for _, e := range dead {
		if present[e] = s.current[e]; present[e] == nil {
			present[e] = &crashedProcess{e.Name}
		}
	}
	called := uniqueNames(alive)
	for _, e := range alive {
		if present[e] = s.current[e]; present[e] == nil || present[e].Name() != called[e] {
			present[e] = wire.NewClient(called[e], &url.URL{Scheme: "http", Host: e.Address}, s.transport, wire.Token(e.Token))
		}
	}
	if len(present) < len(s.current) {
		s.transport.CloseIdleConnections()
	}
	s.current = present
	var found []model.Source
	for _, e := range slices.SortedFunc(maps.Keys(present), func(a, b ProcessEntry) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.PID-b.PID, strings.Compare(a.Address, b.Address))
	}) {
		found = append(found, present[e])
	}
	return found
}

// splitByLiveness are the entries of processes that live, and the names alone of those that are
// gone and did not say so, unless another of that name came.
func splitByLiveness(all []ProcessEntry) (alive, dead []ProcessEntry) {
	for _, e := range all {
		if isRunning(e.PID) {
			alive = append(alive, e)
		}
	}
	for _, e := range all {
		name := ProcessEntry{Name: e.Name}
		again := slices.ContainsFunc(alive, func(other ProcessEntry) bool { return other.Name == e.Name })
		if e.PID > 0 && !again && !slices.Contains(dead, name) {
			dead = append(dead, name)
		}
	}
	return alive, dead
}

// readEntries are those that are published. A file that does not say what it should is
// passed over: somebody else's, or that of another version.
func readEntries(folder string) []ProcessEntry {
	files, _ := filepath.Glob(filepath.Join(escapeGlob(folder), "*"+entrySuffix)) // Only a bad pattern is an error.
	var all []ProcessEntry
	for _, file := range files {
		var e ProcessEntry
		if err := readEntry(file, &e); err == nil && isLoopback(e.Address) {
			all = append(all, e)
		}
	}
	return all
}

// escapeGlob is a path as a pattern that means itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func readEntry(path string, into *ProcessEntry) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxEntryBytes))
	if err != nil {
		return err
	}
	if about, err := file.Stat(); err == nil {
		into.written = about.ModTime()
	}
	return json.Unmarshal(text, into)
}

// isLoopback says whether an address is of this machine. The token goes nowhere else.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// isRunning says whether there is a process.
func isRunning(pid int) bool {
	if pid <= 0 {
		return false
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = process.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}
