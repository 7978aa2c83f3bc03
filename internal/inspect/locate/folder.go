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
