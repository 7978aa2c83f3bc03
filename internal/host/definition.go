package host

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

// definitions is how CRDs are served.
var definitions = object.Resource{
	Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", Status: true,
}

// definition is a CRD to install or upgrade.
type definition struct {
	*object.Object
	// breaking allows an upgrade that could break objects that are stored.
	breaking bool
}

// definitionsOf are the CRDs that a Host installs: those of controllers, unless
// others install them or no controller is declared by an object, and those it is
// given. Ours are as their release says, and may be an older one's.
func definitionsOf(o Options) ([]definition, error) {
	var all []definition
	if !o.SkipCRDs && len(o.Own) == 0 {
		ours, err := ownDefinitions()
		if err != nil {
			return nil, err
		}
		all = ours
	}
	given, err := readDefinitions(o.Definitions, o.BreakingDefinitions)
	if err != nil {
		return nil, fmt.Errorf("read the definitions of the program: %w", err)
	}
	return append(all, given...), nil
}

// ownDefinitions are the CRDs of controllers, as this release has them.
func ownDefinitions() ([]definition, error) {
	texts, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	all, err := readDefinitions(texts, true)
	if err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	return all, nil
}

// readDefinitions reads CRDs from texts, of which each may hold several.
func readDefinitions(texts [][]byte, breaking bool) ([]definition, error) {
	var all []definition
	for i, text := range texts {
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for n := 1; ; n++ {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var o *object.Object
			if err == nil {
				o, err = readDefinition(document)
			}
			if err != nil {
				return nil, fmt.Errorf("text %d, document %d: %w", i+1, n, err)
			}
			if o != nil {
				all = append(all, definition{o, breaking})
			}
		}
	}
	return all, nil
}

// readDefinition reads one document; nil if it is empty. What the API server keeps
// of a CRD itself is left out.
func readDefinition(document []byte) (*object.Object, error) {
	data, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	if string(data) == "null" {
		return nil, nil //nolint:nilnil // Nothing but comments is nothing to install.
	}
	o, err := object.Parse(data)
	if err != nil {
		return nil, err
	}
	if o.APIVersion() != definitions.APIVersion() || o.Kind() != definitions.Kind {
		return nil, fmt.Errorf("%s of %s is not a %s of %s", o.Kind(), o.APIVersion(), definitions.Kind, definitions.APIVersion())
	}
	if o.Name() == "" {
		return nil, errors.New("metadata.name is missing")
	}
	return o.Edited(object.Edit{Path: []string{"status"}}, object.Edit{Path: []string{"metadata", "creationTimestamp"}})
}

// names are those of the CRDs, each once.
func names(all []definition) []string {
	var some []string
	for _, d := range all {
		some = append(some, d.Name())
	}
	slices.Sort(some)
	return slices.Compact(some)
}
