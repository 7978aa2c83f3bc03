package locate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// hooksPrefix is that of the files with the addresses of hooks: one for each session in a folder.
const hooksPrefix = "hooks-"

// PublishHooks writes the local addresses of hooks as HOST=ADDRESS: local processes stand in
// for Services. Calling withdraw removes them; those of a process that was killed are not read.
func PublishHooks(folder string, routes []string) (withdraw func(), err error) {
	file, err := os.CreateTemp(folder, "."+hooksPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("publish hook addresses: %w", err)
	}
	if err = Lock(file); err == nil {
		_, err = file.WriteString(strings.Join(routes, ","))
	}
	published := filepath.Join(folder, strings.TrimPrefix(filepath.Base(file.Name()), "."))
	if err == nil {
		err = os.Rename(file.Name(), published)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, fmt.Errorf("publish hook addresses: %w", err)
	}
	return func() {
		_ = os.Remove(published)
		_ = file.Close()
	}, nil
}

// ReadHooks returns the published addresses, separated by commas; "" for none.
func ReadHooks(folder string) string {
	files, _ := filepath.Glob(filepath.Join(escapeGlob(folder), hooksPrefix+"*")) // The pattern is valid.
	var all []string
	for _, path := range files {
		if routes := readHooksFile(path); routes != "" {
			all = append(all, routes)
		}
	}
	return strings.Join(all, ",")
}

// readHooksFile reads the addresses of one session, and removes those of one that was killed.
func readHooksFile(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if !isLocked(file) {
		_ = os.Remove(path)
		return ""
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return ""
	}
	return string(text)
}
