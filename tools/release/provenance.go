package main

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// An in-toto statement with SLSA provenance: which files were built, from what, and by which builder. It
// has no times, so that two builds are equal.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []subject  `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     provenance `json:"predicate"`
	}
	subject struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest"`
	}
	provenance struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		InternalParameters   map[string]any `json:"internalParameters"`
		ResolvedDependencies []subject      `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder map[string]string `json:"builder"`
	}
)

const (
	buildType = "https://github.com/setpoint-dev/setpoint/blob/main/tools/release/README.md"
	// localBuilder is the builder of a release that no build service vouches for.
	localBuilder = "urn:setpoint:builder:local"
)

// writeProvenance writes the statement about all files with a checksum, and its predicate alone,
// which is what `cosign attest` takes.
func (r *release) writeProvenance(sums []checksum) error {
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: provenance{
			BuildDefinition: buildDefinition{
				BuildType:          buildType,
				ExternalParameters: map[string]any{"version": r.version, "platforms": names(r.platforms), "full": r.full},
				InternalParameters: map[string]any{"go": runtime.Version(), "uncommittedChanges": r.commit.changed},
				ResolvedDependencies: []subject{{
					URI:    "git+https://github.com/setpoint-dev/setpoint",
					Digest: map[string]string{"gitCommit": r.commit.digest},
				}},
			},
			RunDetails: runDetails{Builder: map[string]string{"id": cmp.Or(r.builder, localBuilder)}},
		},
	}
	for _, sum := range sums {
		s.Subject = append(s.Subject, subject{Name: sum.name, Digest: map[string]string{"sha256": sum.digest}})
	}
	for name, content := range map[string]any{"provenance.intoto.json": s, "provenance.predicate.json": s.Predicate} {
		data, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.dir, name), append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// checksum is the SHA-256 of a file.
type checksum struct{ name, digest string }

// checksums returns those of all artifacts, by name.
func (r *release) checksums() ([]checksum, error) {
	var all []checksum
	err := filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.dir, path)
		all = append(all, checksum{filepath.ToSlash(name), fmt.Sprintf("%x", sha256.Sum256(data))})
		return err
	})
	slices.SortFunc(all, func(a, b checksum) int { return cmp.Compare(a.name, b.name) })
	return all, err
}

// writeChecksums writes the checksums, as sha256sum does, and the provenance of the files.
func (r *release) writeChecksums() error {
	all, err := r.checksums()
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, sum := range all {
		fmt.Fprintf(&lines, "%s  %s\n", sum.digest, sum.name)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "SHA256SUMS"), []byte(lines.String()), 0o644); err != nil {
		return err
	}
	return r.writeProvenance(all)
}
