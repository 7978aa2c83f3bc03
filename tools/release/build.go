package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// platforms lists the platforms of the binaries; what a cluster runs is for Linux only.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// names lists platforms as users write them.
func names(platforms []platform) string {
	var all []string
	for _, p := range platforms {
		all = append(all, p.os+"/"+p.arch)
	}
	return strings.Join(all, ",")
}

// setPlatforms selects platforms of the list.
func (r *release) setPlatforms(text string) error {
	r.platforms = nil
	for name := range strings.SplitSeq(text, ",") {
		at := slices.IndexFunc(platforms, func(p platform) bool { return name == p.os+"/"+p.arch })
		if at < 0 {
			return fmt.Errorf("unknown platform %q, want some of %s", name, names(platforms))
		}
		r.platforms = append(r.platforms, platforms[at])
	}
	return nil
}

// binary is a built program.
type binary struct {
	platform
	// name is that of its archive, without version and platform.
	name, path string
	// module is the folder of its module, and source its package.
	module, source string
}

// controller is what a cluster runs.
const controller = "setpoint-controller"

// build builds the binaries below the folder of the artifacts.
func (r *release) build(ctx context.Context) ([]binary, error) {
	var all []binary
	add := func(p platform, name, module, source string) {
		all = append(all, binary{p, name, filepath.Join(r.dir, "bin", p.String(), name), module, source})
	}
	for _, p := range r.platforms {
		add(p, "setpoint", r.root, "./cmd/setpoint")
		if p.os == "linux" {
			add(p, controller, r.root, "./cmd/"+controller)
		}
	}
	if r.full {
		add(platform{"linux", "amd64"}, "setpoint-full", filepath.Join(r.root, "controlplane"), "./cmd/setpoint")
	}
	for _, b := range all {
		fmt.Fprintln(os.Stderr, "release: build", b.name, b.platform)
		if err := b.compile(ctx, r.version); err != nil {
			return nil, fmt.Errorf("build %s for %s: %w", b.name, b.platform, err)
		}
	}
	return all, nil
}

// goFlags are the Makefile's. With others the go command would compile everything anew.
const goFlags = "-trimpath -gcflags=all=-dwarf=false"

// compile builds a binary whose bytes depend on sources, version and toolchain only.
func (b binary) compile(ctx context.Context, version string) error {
	output, err := filepath.Abs(b.path)
	if err != nil {
		return err
	}
	// The version is that of the release, also if the commit has another tag or none.
	ldflags := "-s -w -X github.com/setpoint-dev/setpoint/internal/cli/command.version=v" + version
	cmd := exec.CommandContext(ctx, "go", "-C", b.module, "build", "-buildvcs=false", "-ldflags", ldflags,
		"-o", output, b.source)
	cmd.Env = append(os.Environ(), "GOOS="+b.os, "GOARCH="+b.arch, "CGO_ENABLED=0", "GOFLAGS="+goFlags, "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
