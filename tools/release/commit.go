package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// commit is what git says of the sources.
type commit struct {
	version, digest string
	time            time.Time
	// changed means that the sources have changes that are not committed.
	changed bool
}

// readCommit returns the time of the commit and a version from its tag, or from its date and digest.
func readCommit(ctx context.Context, root string) (commit, error) {
	seconds, err := git(ctx, root, "log", "-1", "--format=%ct")
	if err != nil {
		return commit{}, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("time of the commit: %w", err)
	}
	c := commit{time: time.Unix(unix, 0).UTC()}
	if c.digest, err = git(ctx, root, "rev-parse", "HEAD"); err != nil {
		return commit{}, err
	}
	changes, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return commit{}, err
	}
	c.changed = changes != ""
	if tag, err := git(ctx, root, "describe", "--tags", "--exact-match", "--match", "v*"); err == nil {
		c.version = strings.TrimPrefix(tag, "v")
		return c, nil
	}
	c.version = "0.0.0-" + c.time.Format("20060102150405") + "-" + c.digest[:12]
	return c, nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

var semanticVersion = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func checkVersion(version string) error {
	if !semanticVersion.MatchString(version) {
		return fmt.Errorf("-version: %q is not a semantic version such as 1.2.3 or 1.2.3-rc.1", version)
	}
	return nil
}
