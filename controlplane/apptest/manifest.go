package apptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// parse reads manifests: YAML or JSON, with any number of objects in it.
func parse(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read a manifest: %w", err)
		}
		data, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("read a manifest: %w\n%s", err, document)
		}
		o := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(data, &o.Object); err != nil {
			return nil, fmt.Errorf("read a manifest: %w\n%s", err, document)
		}
		switch {
		case len(o.Object) == 0:
			// A document may be empty.
		case o.GetKind() == "" || o.GetAPIVersion() == "":
			return nil, fmt.Errorf("read a manifest: it has no apiVersion and kind:\n%s", document)
		default:
			all = append(all, o)
		}
	}
}

// generic is an object of whatever Go type as one without.
func generic(from any) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("write a %T as JSON: %w", from, err)
	}
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &o.Object); err != nil {
		return nil, fmt.Errorf("a %T is no object: %w", from, err)
	}
	return o, nil
}

// typed is an object as one of a Go type.
func typed[T any](from *unstructured.Unstructured) (*T, error) {
	to := new(T)
	data, err := json.Marshal(from.Object)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s as a %T: %w", from.GetKind(), from.GetName(), to, err)
	}
	return to, nil
}

// object is one with nothing but metadata.
func object(k kind, metadata map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": k.apiVersion, "kind": k.kind, "metadata": metadata}}
}

// show formats an object for the output of a test.
func show(o *unstructured.Unstructured) string {
	shown := o.DeepCopy()
	shown.SetManagedFields(nil)
	text, err := yaml.Marshal(shown.Object)
	if err != nil {
		return err.Error()
	}
	return indented(string(text))
}

// indented is a text that belongs to the line before it.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}

// difference is the merge patch (RFC 7396) from one object to another. Lists are
// replaced whole.
func difference(was, is map[string]any) (map[string]any, error) {
	changes := map[string]any{}
	both := maps.Clone(was)
	maps.Copy(both, is)
	for name := range both {
		inner, changed, err := change(was[name], is[name])
		if err != nil {
			return nil, err
		}
		if changed {
			changes[name] = inner
		}
	}
	return changes, nil
}

// change is the merge patch from one value to another; nil takes it away.
func change(was, is any) (to any, changed bool, err error) {
	before, wasObject := was.(map[string]any)
	after, isObject := is.(map[string]any)
	if wasObject && isObject {
		inner, err := difference(before, after)
		return inner, len(inner) > 0, err
	}
	a, err := json.Marshal(was)
	if err != nil {
		return nil, false, err
	}
	b, err := json.Marshal(is)
	return is, !bytes.Equal(a, b), err
}

// reference is an object, wherever it is.
type reference struct {
	resource

	kind            kind
	namespace, name string
}

func (r reference) String() string {
	if r.namespace == "" {
		return r.kind.kind + " " + r.name
	}
	return r.kind.kind + " " + r.namespace + "/" + r.name
}

// forced is how tests apply: what they say is how it is.
func forced() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
}
