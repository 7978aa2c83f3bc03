package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeKrew writes the manifest of the kubectl plugin for krew.
func (r *release) writeKrew() error {
	var manifest strings.Builder
	fmt.Fprintf(&manifest, krewHead, r.version)
	for _, p := range r.platforms {
		archive := fmt.Sprintf("kubectl-setpoint-%s-%s.tar.gz", r.version, p)
		data, err := os.ReadFile(filepath.Join(r.dir, archive))
		if err != nil {
			return err
		}
		fmt.Fprintf(&manifest, krewPlatform, p.os, p.arch, r.url, archive, sha256.Sum256(data))
	}
	return os.WriteFile(filepath.Join(r.dir, "setpoint-krew.yaml"), []byte(manifest.String()), 0o644)
}

const krewHead = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: setpoint
spec:
  version: v%s
  homepage: https://github.com/setpoint-dev/setpoint
  shortDescription: Explain, plan and repair what controllers do
  description: |
    Shows the controllers of Setpoint in a cluster, why they changed an object, what they would
    change, and what belongs to an object.
  platforms:
`

const krewPlatform = `  - selector: {matchLabels: {os: %s, arch: %s}}
    uri: %s/%s
    sha256: %x
    bin: kubectl-setpoint
`
