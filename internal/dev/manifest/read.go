// Package manifest reads Kubernetes manifests and syncs a cluster with them. It
// applies new and changed objects, and deletes objects that were removed from a
// file, provided that this run applied them.
//
// The dev loop decides when to sync and what to print.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Document is one object in a manifest file.
type Document struct {
	// File is the path as a user would type it, Index counts from 1, Line is the first line
	// of the document.
	File        string
	Index, Line int

	Object *unstructured.Unstructured

	// text is the YAML of the document, at its lines in the file. inList means that Object is an item.
	text   []byte
	inList bool
}

// String returns the position of the document.
func (d Document) String() string {
	return fmt.Sprintf("%s: document %d (line %d)", d.File, d.Index, d.Line)
}

// TestGroup is the group of the objects that `setpoint test` reads. No API server has them.
const TestGroup = "test.setpoint.dev"

// IsTest reports whether the document is for `setpoint test`.
func (d Document) IsTest() bool { return object.GroupOf(d.Object.GetAPIVersion()) == TestGroup }

// Read reads all objects in files and folders, in order, except tests. It returns all errors.
func Read(paths []string) ([]Document, error) {
	r, err := readAll(paths)
	return r.documents, err
}

// ReadWithTests reads all objects in files and folders, in order. It returns all errors.
func ReadWithTests(paths []string) ([]Document, error) {
	r, err := readFiles(paths)
	return r.documents, err
}

// reading is what some files held at one time.
type reading struct {
	documents []Document
	empty     []string // files without text
	digest    uint64   // of the names and texts of all files
}

// readAll reads all objects except tests.
func readAll(paths []string) (reading, error) {
	r, err := readFiles(paths)
	r.documents = slices.DeleteFunc(r.documents, Document.IsTest)
	return r, err
}

func readFiles(paths []string) (reading, error) {
	var r reading
	files, err := Files(paths)
	problems := []error{err}
	sum := fnv.New64a()
	for _, file := range files {
		load := os.ReadFile
		if file == Stdin {
			load = readStdin
		}
		data, err := load(file)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		fmt.Fprintf(sum, "%q %q\n", file, data)
		if len(bytes.TrimSpace(data)) == 0 {
			r.empty = append(r.empty, shorten(file))
		}
		documents, err := Parse(shorten(file), data)
		r.documents, problems = append(r.documents, documents...), append(problems, err)
	}
	r.digest = sum.Sum64()
	problems = append(problems, checkUnique(r.documents))
	return r, errors.Join(problems...)
}

// Stdin names standard input among files, which is read once.
const Stdin = "-"

var readStdin = func() func(string) ([]byte, error) {
	once := sync.OnceValues(func() ([]byte, error) { return io.ReadAll(os.Stdin) })
	return func(string) ([]byte, error) { return once() }
}()

// Files expands folders to the manifests directly in them, by name. It returns each file once.
func Files(paths []string) ([]string, error) {
	var files []string
	var problems []error
	seen := map[string]bool{}
	add := func(file string) {
		absolute, err := filepath.Abs(file)
		if problems = append(problems, err); !seen[absolute] {
			files, seen[absolute] = append(files, file), true
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case path == Stdin:
			add(path)
		case err != nil:
			problems = append(problems, err)
		case info.IsDir():
			for _, file := range manifestsIn(path) {
				add(file)
			}
		default:
			add(path)
		}
	}
	return files, errors.Join(problems...)
}

// reservedFiles are YAML files that are not manifests.
var reservedFiles = []string{"setpoint.yaml", "kustomization.yaml", "kustomization.yml"}

func manifestsIn(dir string) []string {
	entries, _ := os.ReadDir(dir) // A missing folder has no manifests.
	entries = lists.Filter(entries, func(e os.DirEntry) bool { return e.Type().IsRegular() && IsManifest(e.Name()) })
	return lists.Map(entries, func(e os.DirEntry) string { return filepath.Join(dir, e.Name()) })
}

// IsManifest reports whether a file in a folder is a manifest. Schemas for editors are none.
func IsManifest(file string) bool {
	return HasExtension(file) && !slices.Contains(reservedFiles, filepath.Base(file)) && !strings.HasSuffix(file, ".schema.json")
}

// HasExtension reports whether the name of a file has an extension of manifests.
func HasExtension(file string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file))
}

// shorten returns a path relative to the working directory if that is shorter.
func shorten(file string) string {
	if file == Stdin {
		return "standard input"
	}
	here, err := os.Getwd()
	if err != nil {
		return file
	}
	relative, err := filepath.Rel(here, file)
	if err != nil || len(relative) > len(file) {
		return file
	}
	return relative
}

// Parse reads all objects of a file, whose name errors show.
func Parse(file string, data []byte) ([]Document, error) {
	var all []Document
	var problems []error
	for i, d := range split(data) {
		d.File, d.Index = file, i+1
		documents, err := decode(d)
		all, problems = append(all, documents...), append(problems, err)
	}
	return all, errors.Join(problems...)
}

// decode reads one document; a List is replaced by its items.
func decode(at Document) ([]Document, error) {
	at.text = append(bytes.Repeat([]byte("\n"), at.Line-1), at.text...) // Now its lines are those of the file.
	asJSON, err := yaml.YAMLToJSONStrict(at.text)
	if err != nil {
		return nil, fmt.Errorf("%s: error converting YAML to JSON: %w", at, err)
	}
	content, err := object.Decode(asJSON) // It keeps all digits of integers.
	if err != nil {
		return nil, fmt.Errorf("%s: error unmarshaling JSON: %w", at, err)
	}
	if len(content) == 0 {
		return nil, nil
	}
	at.Object = &unstructured.Unstructured{Object: content}
	if !at.Object.IsList() {
		return []Document{at}, check(at)
	}
	var all []Document
	var problems []error
	at.inList = true
	items, _ := content["items"].([]any)
	for _, item := range items {
		fields, _ := item.(map[string]any)
		at.Object = &unstructured.Unstructured{Object: fields}
		all, problems = append(all, at), append(problems, check(at))
	}
	return all, errors.Join(problems...)
}

// check checks the fields that identify the object; the API server validates the rest.
func check(d Document) error {
	for _, want := range []struct{ field, value string }{
		{"apiVersion", d.Object.GetAPIVersion()},
		{"kind", d.Object.GetKind()},
		{"metadata.name", d.Object.GetName()},
	} {
		if want.value != "" {
			continue
		}
		if slices.Contains(reservedFiles, filepath.Base(d.File)) {
			return fmt.Errorf("%s: %s: required: the file is not a manifest; name its folder, or its manifests", d, want.field)
		}
		return fmt.Errorf("%s: %s: required", d, want.field)
	}
	return nil
}

func checkUnique(all []Document) error {
	seen := map[object.Ref]Document{}
	var problems []error
	for _, d := range all {
		key := RefOf(d.Object)
		if first, twice := seen[key]; twice {
			problems = append(problems, fmt.Errorf("%s: %s is already in %s", d, key, first))
		}
		seen[key] = d
	}
	return errors.Join(problems...)
}

// split splits a file at "---" lines into texts with their first lines. Empty ones are not counted, so that a leading "---"
// does not shift the numbers.
func split(data []byte) []Document {
	var all []Document
	current := Document{Line: 1}
	flush := func(next int) {
		if hasContent(current.text) {
			all = append(all, current)
		}
		current = Document{Line: next}
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if isSeparator(line) {
			flush(number + 1)
			continue
		}
		current.text = append(current.text, line...)
	}
	flush(0)
	return all
}

func isSeparator(line []byte) bool {
	rest, found := bytes.CutPrefix(line, []byte("---"))
	return found && (len(bytes.TrimSpace(rest)) == 0 || bytes.HasPrefix(bytes.TrimSpace(rest), []byte("#")))
}

func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// RefOf identifies an object in any version.
func RefOf(o *unstructured.Unstructured) object.Ref {
	kind := o.GroupVersionKind()
	return object.Ref{Kind: object.Kind{Group: kind.Group, Kind: kind.Kind}, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// stage returns 0 for namespaces and CRDs, which others need, else 1.
func stage(ref object.Ref) int {
	if kind := ref.GroupKind(); kind == namespaceKind || kind == crdKind {
		return 0
	}
	return 1
}

var (
	crdKind       = object.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	namespaceKind = object.GroupKind{Kind: "Namespace"}
)

// Objects converts documents for packages that do not use unstructured ones.
func Objects(documents []Document) ([]*object.Object, error) {
	var all []*object.Object
	for _, d := range documents {
		text, err := json.Marshal(d.Object)
		if err != nil {
			return nil, err
		}
		o, err := object.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		all = append(all, o)
	}
	return all, nil
}
