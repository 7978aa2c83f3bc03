// Package crd carries the CustomResourceDefinitions of the kinds this release reconciles.
//
// The YAML files here are generated from api/ and never edited; make gen writes them. Code
// that installs CRDs reads them through All. The tests of this package check the files: a status that
// is not pruned, the published fields and defaults, a description for each field.
package crd

import "embed"

// The deep copies of api/ come from the same run as the CRDs, so that neither can lag behind.
//go:generate go tool -modfile=../../tools/go.mod controller-gen object crd paths=../../api/... output:crd:dir=.
//go:generate go -C ../../tools run ./reference ..

//go:embed *.yaml
var manifests embed.FS

// All returns the manifest of each CRD as YAML, in the order of their file names.
func All() [][]byte {
	entries, _ := manifests.ReadDir(".") // What is embedded is read without errors.
	all := make([][]byte, len(entries))
	for i, entry := range entries {
		all[i], _ = manifests.ReadFile(entry.Name())
	}
	return all
}
