// Package crds installs CustomResourceDefinitions, unless their upgrade is breaking, and keeps them: it notices when
// they are deleted, and applies those of controllers again after changes by others.
//
// Package manager says which CRDs there are.
package crds

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Resource is the resource of CRDs.
var Resource = object.Resource{
	Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", Status: true,
}

// Manifest is a CRD to install or upgrade.
type Manifest struct {
	*object.Object
	// AllowBreaking allows an upgrade that could break stored objects.
	AllowBreaking bool
}

// Parse reads CRDs from texts of one or more YAML documents.
func Parse(texts [][]byte, breaking bool) ([]Manifest, error) {
	var all []Manifest
	for i, text := range texts {
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for n := 1; ; n++ {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var o *object.Object
			if err == nil {
				o, err = parseDocument(document)
			}
			if err != nil {
				return nil, fmt.Errorf("text %d, document %d: %w", i+1, n, err)
			}
			if o != nil {
				all = append(all, Manifest{o, breaking})
			}
		}
	}
	return all, nil
}

// parseDocument reads one document; nil if it is empty. It removes what the API server sets.
func parseDocument(document []byte) (*object.Object, error) {
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
	if o.APIVersion() != Resource.APIVersion() || o.Kind() != Resource.Kind {
		return nil, fmt.Errorf("%s of %s is not a %s of %s", o.Kind(), o.APIVersion(), Resource.Kind, Resource.APIVersion())
	}
	if o.Name() == "" {
		return nil, errors.New("metadata.name is missing")
	}
	return o.Edited(object.Edit{Path: []string{"status"}}, object.Edit{Path: []string{"metadata", "creationTimestamp"}})
}

// Names returns the sorted names of CRDs, without duplicates.
func Names(all []Manifest) []string {
	some := lists.Map(all, func(d Manifest) string { return d.Name() })
	slices.Sort(some)
	return slices.Compact(some)
}

// NameOf returns the name of a custom resource's CRD.
func NameOf(resource object.Resource) string { return resource.Plural + "." + resource.Group }
