package manager

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// crdResource is the resource of CRDs.
var crdResource = object.Resource{
	Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", Status: true,
}

// crdManifest is a CRD to install or upgrade.
type crdManifest struct {
	*object.Object
	// allowBreaking allows an upgrade that could break stored objects.
	allowBreaking bool
}

// crdsToInstall returns the CRDs of controllers, unless SkipCRDs is set or a Go program
// declares all controllers, and those of the options. An upgrade of Setpoint's own CRDs is
// never refused.
func crdsToInstall(o Options) ([]crdManifest, error) {
	var all []crdManifest
	if !o.SkipCRDs && len(o.GoControllers) == 0 {
		ours, err := controllerCRDs()
		if err != nil {
			return nil, err
		}
		all = ours
	}
	given, err := parseCRDs(o.CRDs, o.AllowBreakingCRDs)
	if err != nil {
		return nil, fmt.Errorf("read the CRDs of the program: %w", err)
	}
	return append(all, given...), nil
}

// controllerCRDs returns the CRDs of controllers in this release.
func controllerCRDs() ([]crdManifest, error) {
	texts, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	all, err := parseCRDs(texts, true)
	if err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	return all, nil
}

// parseCRDs reads CRDs from texts of one or more YAML documents.
func parseCRDs(texts [][]byte, breaking bool) ([]crdManifest, error) {
	var all []crdManifest
	for i, text := range texts {
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for n := 1; ; n++ {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var o *object.Object
			if err == nil {
				o, err = parseCRD(document)
			}
			if err != nil {
				return nil, fmt.Errorf("text %d, document %d: %w", i+1, n, err)
			}
			if o != nil {
				all = append(all, crdManifest{o, breaking})
			}
		}
	}
	return all, nil
}

// parseCRD reads one document; nil if it is empty. It removes what the API server sets.
func parseCRD(document []byte) (*object.Object, error) {
	data, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	if string(data) == "null" {
		return nil, nil //nolint:nilnil // A document of comments has no CRD.
	}
	o, err := object.Parse(data)
	if err != nil {
		return nil, err
	}
	if o.APIVersion() != crdResource.APIVersion() || o.Kind() != crdResource.Kind {
		return nil, fmt.Errorf("%s of %s is not a %s of %s", o.Kind(), o.APIVersion(), crdResource.Kind, crdResource.APIVersion())
	}
	if o.Name() == "" {
		return nil, errors.New("metadata.name is missing")
	}
	return o.Edited(object.Edit{Path: []string{"status"}}, object.Edit{Path: []string{"metadata", "creationTimestamp"}})
}

// crdNames returns the sorted names of CRDs, without duplicates.
func crdNames(all []crdManifest) []string {
	var some []string
	for _, d := range all {
		some = append(some, d.Name())
	}
	slices.Sort(some)
	return slices.Compact(some)
}
