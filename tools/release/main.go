// Command release makes everything that a release of Setpoint consists of, without a container
// daemon and without a registry: binaries, an image, the Helm chart, manifests, SBOMs, checksums. Two
// runs on one commit write equal files.
//
// What lives here: builds and archives. What must not: what is installed in a cluster (install/).
// Who calls: make release.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/setpoint-dev/setpoint/tools/release/install"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	r := release{platforms: platforms}
	set := flag.NewFlagSet("release", flag.ContinueOnError)
	set.StringVar(&r.root, "root", ".", "`folder` of the repository")
	set.StringVar(&r.dir, "o", "dist", "`folder` of the artifacts, which is emptied first")
	set.StringVar(&r.version, "version", "", "semantic `version`; default: the tag of the commit, or 0.0.0- and its date and digest")
	set.Func("platforms", "comma-separated `platforms` of the binaries; default: "+names(platforms), r.setPlatforms)
	set.StringVar(&r.builder, "builder", "", "`URI` of the build service, for the provenance; default: "+localBuilder)
	set.BoolVar(&r.installOnly, "install-only", false, "write the chart and the manifests only")
	set.BoolVar(&r.full, "full", false, "build the binary with a control plane, too")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", set.Arg(0))
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if r.installOnly {
		return r.writeInstall(nil)
	}
	binaries, err := r.build(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func([]binary) error{r.archive, r.writeImage, r.writeInstall, r.writeSBOMs} {
		if err := step(binaries); err != nil {
			return err
		}
	}
	return r.writeChecksums()
}

// prepare reads version and time of the commit, and empties the folder.
func (r *release) prepare(ctx context.Context) error {
	commit, err := readCommit(ctx, r.root)
	if err != nil {
		return err
	}
	r.commit, r.time = commit, commit.time
	if r.version == "" {
		r.version = commit.version
	}
	if err := checkVersion(r.version); err != nil {
		return err
	}
	return r.emptyDir()
}

// writeInstall writes the chart, the manifests, the alert rules and the dashboard.
func (r *release) writeInstall([]binary) error {
	crds, err := readCRDs(filepath.Join(r.root, "config", "crd"))
	if err != nil {
		return err
	}
	chart, err := install.Chart(r.version, crds)
	if err != nil {
		return err
	}
	if err := r.writeArchive("setpoint-chart-"+r.version+".tgz", entriesOf("setpoint/", chart)); err != nil {
		return err
	}
	return errors.Join(
		writeFiles(filepath.Join(r.dir, "install"), install.Manifests(r.version, crds)),
		writeFiles(r.dir, install.Monitoring()))
}

// readCRDs reads the manifests of the CRDs by file name.
func readCRDs(dir string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no CRDs in %s: %w", dir, err)
	}
	crds := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		crds[filepath.Base(path)] = data
	}
	return crds, nil
}
