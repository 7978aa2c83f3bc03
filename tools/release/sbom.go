package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"
)

// The part of SPDX 2.3 that describes a Go program.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		CreationInfo  spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID               string          `json:"SPDXID"`
		Name             string          `json:"name"`
		Version          string          `json:"versionInfo"`
		DownloadLocation string          `json:"downloadLocation"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		LicenseConcluded string          `json:"licenseConcluded"`
		LicenseDeclared  string          `json:"licenseDeclared"`
		Copyright        string          `json:"copyrightText"`
		Comment          string          `json:"comment,omitempty"`
		Checksums        []spdxChecksum  `json:"checksums,omitempty"`
		References       []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// noAssertion is how SPDX says that a document does not say.
const noAssertion = "NOASSERTION"

// writeSBOMs writes an SPDX document for each binary, from the modules that the linker recorded in it.
func (r *release) writeSBOMs(binaries []binary) error {
	for _, b := range binaries {
		name := fmt.Sprintf("%s-%s-%s.spdx.json", b.name, r.version, b.platform)
		document, err := r.sbom(name, b)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		data, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.dir, name), append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) sbom(name string, b binary) (*spdxDocument, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(program))
	root := newPackage(0, info.Main.Path, "v"+r.version)
	root.LicenseDeclared = "Apache-2.0"
	root.Checksums = []spdxChecksum{{"SHA256", digest}}
	document := &spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name, Namespace: "urn:setpoint:sbom:" + digest,
		CreationInfo:  spdxCreation{Created: r.time.Format(time.RFC3339), Creators: []string{"Tool: setpoint-release-" + r.version}},
		Packages:      []spdxPackage{root, newPackage(1, "stdlib", info.GoVersion)},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root.ID}, {root.ID, "DEPENDS_ON", "SPDXRef-Package-1"}},
	}
	for _, module := range info.Deps {
		dependency := dependencyPackage(len(document.Packages), module)
		document.Packages = append(document.Packages, dependency)
		document.Relationships = append(document.Relationships, spdxRelationship{root.ID, "DEPENDS_ON", dependency.ID})
	}
	return document, nil
}

// dependencyPackage describes a module as it was linked: its replacement, if it has one.
func dependencyPackage(n int, module *debug.Module) spdxPackage {
	comment := ""
	if module.Replace != nil {
		comment = "replaces " + module.Path + " " + module.Version
		module = module.Replace
	}
	p := newPackage(n, module.Path, module.Version)
	if module.Sum != "" {
		comment += " go.sum " + module.Sum
	}
	p.Comment = comment
	return p
}

func newPackage(n int, path, version string) spdxPackage {
	return spdxPackage{
		ID: fmt.Sprintf("SPDXRef-Package-%d", n), Name: path, Version: version,
		DownloadLocation: noAssertion, LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, Copyright: noAssertion,
		References: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	}
}
