package discovery

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hooksFile is the file of a folder that says where hooks are. It is no process's.
const hooksFile = "hooks"

// PublishHooks says in a folder where the hooks of hosts are reached, as HOST=ADDRESS each:
// processes of this machine stand in for Services.
func PublishHooks(folder string, routes []string) error {
	path := filepath.Join(folder, hooksFile)
	if err := os.WriteFile(path+".new", []byte(strings.Join(routes, ",")), 0o600); err != nil {
		return fmt.Errorf("publish where hooks are: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("publish where hooks are: %w", err)
	}
	return nil
}

// ReadHooks is what PublishHooks said, with commas between; "" if it said nothing.
func ReadHooks(folder string) string {
	text, err := os.ReadFile(filepath.Join(folder, hooksFile))
	if err != nil {
		return ""
	}
	return string(text)
}
