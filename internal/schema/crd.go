package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Served is a version of a kind that a CRD serves.
type Served struct {
	object.Kind
	// Schema is the schema of objects.
	Schema *spec.Schema
	// Stored reports whether the API server stores objects in this version, Status whether it has the
	// status subresource.
	Stored, Status         bool
	ShortNames, Categories []string
}

// Resource returns the kind as a resource.
func (s *Served) Resource() object.Resource {
	return object.Resource{
		Group: s.Group, Version: s.Version, Plural: s.Plural, Kind: s.Kind.Kind,
		Namespaced: s.Namespaced, Status: s.Status, Custom: true,
	}
}

// definition has the fields of a CRD that describe its kind.
type definition struct {
	APIVersion string
	Kind       string
	Spec       struct {
		Group string
		Scope string
		Names struct {
			Kind, Plural           string
			ShortNames, Categories []string
		}
		Versions []struct {
			Name            string
			Served, Storage bool
			Schema          struct{ OpenAPIV3Schema *spec.Schema }
			Subresources    struct{ Status *struct{} }
		}
	}
}

// OfCRD returns the served versions of a CustomResourceDefinition in JSON.
func OfCRD(text []byte) ([]Served, error) {
	var d definition
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	names := d.Spec.Names
	switch {
	case d.Kind != "CustomResourceDefinition":
		return nil, fmt.Errorf("must be a CustomResourceDefinition, not a %s", d.Kind)
	case d.APIVersion == "apiextensions.k8s.io/v1beta1":
		return nil, errors.New("apiVersion: Kubernetes has no apiextensions.k8s.io/v1beta1 any more; write apiextensions.k8s.io/v1, " +
			"where spec.versions has the schemas")
	case d.Spec.Group == "":
		return nil, errors.New("spec.group: required")
	case names.Kind == "" || names.Plural == "":
		return nil, errors.New("spec.names: kind and plural are required")
	}
	var all []Served
	for _, v := range d.Spec.Versions {
		if !v.Served {
			continue
		}
		kind := object.Kind{Group: d.Spec.Group, Version: v.Name, Plural: names.Plural, Kind: names.Kind,
			Namespaced: d.Spec.Scope != "Cluster"}
		all = append(all, Served{kind, cmp.Or(v.Schema.OpenAPIV3Schema, &spec.Schema{}), v.Storage, v.Subresources.Status != nil,
			names.ShortNames, names.Categories})
	}
	if len(all) == 0 {
		return nil, errors.New("spec.versions: none is served")
	}
	return all, nil
}
