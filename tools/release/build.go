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
	// flags are further flags of `go build`.
	flags []string
}

// controller is what a cluster runs.
const controller = "setpoint-controller"

// build builds the binaries below the folder of the artifacts.
func (r *release) build(ctx context.Context) ([]binary, error) {
	var all []binary
	// The version is that of the release, also if the commit has another tag or none.
	flags := []string{"-buildvcs=false", "-ldflags", "-s -w -X github.com/setpoint-dev/setpoint/internal/cli/command.version=v" + r.version}
	for _, p := range r.platforms {
		dir := filepath.Join(r.dir, "bin", p.String())
		all = append(all, binary{p, "setpoint", filepath.Join(dir, "setpoint"), r.root, "./cmd/setpoint", flags})
		if p.os == "linux" {
			all = append(all, binary{p, controller, filepath.Join(dir, controller), r.root, "./cmd/" + controller, flags})
		}
	}
	if r.full {
		p := platform{"linux", "amd64"}
		all = append(all, binary{p, "setpoint-full", filepath.Join(r.dir, "bin", p.String()+"-full", "setpoint"),
			filepath.Join(r.root, "controlplane"), "./cmd/setpoint", flags})
	}
	return all, compileAll(ctx, all)
}

func compileAll(ctx context.Context, all []binary) error {
	for _, b := range all {
		fmt.Fprintln(os.Stderr, "release: build", b.name, b.platform)
		if err := b.compile(ctx); err != nil {
			return fmt.Errorf("build %s for %s: %w", b.name, b.platform, err)
		}
	}
	return nil
}

// compile builds a binary whose bytes depend on sources, version and toolchain only.
func (b binary) compile(ctx context.Context) error {
	output, err := filepath.Abs(b.path)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"-C", b.module, "build", "-trimpath"}, b.flags, []string{"-o", output, b.source})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+b.os, "GOARCH="+b.arch, "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
