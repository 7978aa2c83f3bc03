package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// testProvenance compares the subjects of the provenance with the checksums.
func testProvenance(t *testing.T, dist string) {
	var s statement
	succeed(t, json.Unmarshal([]byte(readFile(t, dist, "provenance.intoto.json")), &s))
	var sums strings.Builder
	for _, subject := range s.Subject {
		sums.WriteString(subject.Digest["sha256"] + "  " + subject.Name + "\n")
	}
	if diff := cmp.Diff(readFile(t, dist, "SHA256SUMS"), sums.String()); diff != "" {
		t.Errorf("-SHA256SUMS +subjects of the provenance:\n%s", diff)
	}
	head := strings.TrimSpace(output(t, exec.Command("git", "rev-parse", "HEAD")))
	if got := s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != head {
		t.Errorf("the provenance names commit %s, want %s", got, head)
	}
	var predicate provenance
	succeed(t, json.Unmarshal([]byte(readFile(t, dist, "provenance.predicate.json")), &predicate))
	if diff := cmp.Diff(s.Predicate, predicate); diff != "" {
		t.Errorf("-predicate of the statement +provenance.predicate.json:\n%s", diff)
	}
}

// stub stands in for cosign and crane: it records its arguments and requires the files that they name.
const stub = `#!/bin/sh
set -eu
echo "$(basename "$0") $*" >>"$RECORD"
case "$1" in
push) test -s "$2/index.json"; echo "${3%:*}@sha256:$PUSHED" ;;
attest) test -s provenance.predicate.json ;;
sign-blob) for file; do :; done; test -s "$file" ;;
esac
`

// testSigning runs sign.sh with stubs of cosign and crane.
func testSigning(t *testing.T, dist string) {
	index := must(layout.ImageIndexFromPath(filepath.Join(dist, "image")))(t)
	manifest := must(index.IndexManifest())(t)
	built := manifest.Manifests[0].Digest.Hex
	other := strings.Repeat("0", 64)
	const image = "registry.example.com/setpoint"
	signed := `crane push image IMAGE:1.2.3
cosign sign --yes --key my.key --recursive IMAGE@sha256:DIGEST
cosign attest --yes --key my.key --type slsaprovenance1 --predicate provenance.predicate.json IMAGE@sha256:DIGEST
cosign sign-blob --yes --key my.key --bundle SHA256SUMS.sigstore.json SHA256SUMS
cosign sign-blob --yes --key my.key --bundle provenance.intoto.json.sigstore.json provenance.intoto.json
`
	for name, c := range map[string]struct {
		uncommitted    string
		damage         string
		pushed         string
		record, reason string
	}{
		"a release":       {pushed: built, record: signed},
		"a changed file":  {damage: "setpoint-alerts.yaml", pushed: built, reason: "differ from SHA256SUMS"},
		"changed sources": {uncommitted: "true", pushed: built, reason: "not committed"},
		"another image":   {pushed: other, record: "crane push image IMAGE:1.2.3\n", reason: "the registry has another image: IMAGE@sha256:" + other},
	} {
		t.Run(name, func(t *testing.T) {
			folder, record := copyOf(t, dist), filepath.Join(t.TempDir(), "record")
			setUncommitted(t, folder, c.uncommitted)
			if c.damage != "" {
				succeed(t, os.WriteFile(filepath.Join(folder, c.damage), []byte("?"), 0o600))
			}
			cmd := exec.CommandContext(t.Context(), "./sign.sh", folder, image)
			cmd.Env = append(os.Environ(), "PATH="+stubs(t)+":"+os.Getenv("PATH"), "RECORD="+record, "PUSHED="+c.pushed, "COSIGN_KEY=my.key")
			out, err := cmd.CombinedOutput()
			names := strings.NewReplacer("IMAGE", image, "DIGEST", built)
			if (err == nil) != (c.reason == "") || !strings.Contains(string(out), names.Replace(c.reason)) {
				t.Errorf("%v: %s, want %q", err, out, c.reason)
			}
			did, _ := os.ReadFile(record) // There is none if nothing was called.
			if diff := cmp.Diff(names.Replace(c.record), string(did)); diff != "" {
				t.Errorf("-want +called:\n%s", diff)
			}
		})
	}
}

// stubs returns a folder with stand-ins for cosign and crane.
func stubs(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"cosign", "crane"} {
		succeed(t, os.WriteFile(filepath.Join(folder, name), []byte(stub), 0o700))
	}
	return folder
}

// setUncommitted makes the provenance say whether the sources had changes. The sources under test may
// have some.
func setUncommitted(t *testing.T, dist, value string) {
	t.Helper()
	if value == "" {
		value = "false"
	}
	text := readFile(t, dist, "provenance.intoto.json")
	for _, now := range []string{"true", "false"} {
		text = strings.ReplaceAll(text, `"uncommittedChanges": `+now, `"uncommittedChanges": `+value)
	}
	succeed(t, os.WriteFile(filepath.Join(dist, "provenance.intoto.json"), []byte(text), 0o600))
}

// copyOf copies a folder.
func copyOf(t *testing.T, folder string) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "dist")
	succeed(t, os.CopyFS(target, os.DirFS(folder)))
	return target
}
