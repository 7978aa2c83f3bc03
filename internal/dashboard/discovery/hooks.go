package discovery

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hooksFile is the file with the addresses of hooks.
const hooksFile = "hooks"

// PublishHooks writes the local addresses of hooks as HOST=ADDRESS: local processes stand in
// for Services.
func PublishHooks(folder string, routes []string) error {
	path := filepath.Join(folder, hooksFile)
	if err := os.WriteFile(path+".new", []byte(strings.Join(routes, ",")), 0o600); err != nil {
		return fmt.Errorf("publish hook addresses: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("publish hook addresses: %w", err)
	}
	return nil
}

// ReadHooks returns the published addresses, separated by commas; "" for none.
func ReadHooks(folder string) string {
	text, err := os.ReadFile(filepath.Join(folder, hooksFile))
	if err != nil {
		return ""
	}
	return string(text)
}
