package locate

import (
	"path/filepath"
	"strings"
)

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
