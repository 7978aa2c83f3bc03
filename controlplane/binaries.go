package controlplane

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/setpoint-dev/setpoint/controlplane/internal/names"
	"github.com/setpoint-dev/setpoint/controlplane/internal/supervise"
)

// binaries are programs of Kubernetes of another version. The zero value stands for our own.
type binaries struct {
	folder  string
	version *version.Version
}

// findBinaries returns the programs in a folder.
func findBinaries(folder string) (binaries, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return binaries{}, fmt.Errorf("find the programs of Kubernetes: %w", err)
	}
	b := binaries{folder: folder}
	var missing []error
	for _, component := range names.Kubernetes() {
		_, err := exec.LookPath(b.path(component))
		missing = append(missing, err)
	}
	if err := errors.Join(missing...); err != nil {
		return b, fmt.Errorf("find the programs of Kubernetes in %s: %w", folder, err)
	}
	probe := exec.Command(b.path(names.APIServer), "--version")
	probe.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process.
	out, err := probe.Output()
	if err != nil {
		return b, fmt.Errorf("%s --version: %w", b.path(names.APIServer), err)
	}
	b.version, err = version.ParseSemantic(strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes "))
	if err != nil {
		return b, fmt.Errorf("%s --version prints no version: %w", b.path(names.APIServer), err)
	}
	return b, nil
}

func (b binaries) path(component string) string { return filepath.Join(b.folder, component) }

// use replaces the program of a component of Kubernetes.
func (b binaries) use(spec *supervise.Spec) {
	if b.folder != "" && slices.Contains(names.Kubernetes(), spec.Name) {
		spec.Path, spec.Args = b.path(spec.Name), spec.Args[2:] // The first two make our own binary the component.
	}
}

// featureGates returns the flags of the API server for features that are not as by default. It rejects features that
// it does not know.
func (b binaries) featureGates() (flags []string) {
	for _, gate := range []struct{ since, value string }{
		{"1.36", "ShardedListAndWatch=true"},
		{"1.37", "WatchListCompression=false"}, // On one machine, it costs both sides more than it saves.
	} {
		if b.isAtLeast(gate.since) {
			flags = append(flags, "--feature-gates="+gate.value)
		}
	}
	return flags
}

// isAtLeast reports whether Kubernetes has a version such as "1.36" or a newer one.
func (b binaries) isAtLeast(atLeast string) bool {
	return b.version == nil || b.version.AtLeast(version.MustParseGeneric(atLeast))
}
