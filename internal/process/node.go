package process

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// stripTypes is a flag that Node.js has since nodeWithTypes. An older one exits with nodeBadOption.
	stripTypes    = "--experimental-strip-types"
	nodeWithTypes = "22.6"
	nodeBadOption = 9
	// versionTimeout bounds `node --version`.
	versionTimeout = 5 * time.Second
)

// nodeHint says that Node.js is too old to run TypeScript, if a command exited for that; "" else.
func (p *Process) nodeHint(ctx context.Context, code int) string {
	if code != nodeBadOption || !slices.Contains(p.options.Command, stripTypes) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	found := "another"
	if version, err := exec.CommandContext(ctx, p.options.Command[0], "--version").Output(); err == nil {
		found = strings.TrimSpace(string(version))
	}
	return fmt.Sprintf(": TypeScript needs Node.js %s or newer, and %s is %s", nodeWithTypes, p.options.Command[0], found)
}
