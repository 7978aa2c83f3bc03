package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// testsFolder is the folder with tests beside the manifests of a folder.
const testsFolder = "tests"

// files is what the arguments have.
type files struct {
	documents []manifest.Document
	projects  []*project.Project
}

// readFiles reads the arguments. It returns all errors.
func readFiles(paths []string) (*files, error) {
	all := &files{}
	var manifests []string
	var problems []error
	if _, _, scripts := project.Split(paths); len(scripts) > 0 {
		p, err := project.ForOperator(scripts, "")
		if err != nil {
			return nil, err
		}
		all.projects = append(all.projects, p)
	}
	for _, path := range paths {
		if filepath.Ext(path) == ".py" {
			continue
		}
		some, err := all.of(path)
		manifests, problems = append(manifests, some...), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	var err error
	all.documents, err = manifest.ReadWithTests(manifests)
	if err == nil && len(all.documents)+len(all.projects) == 0 {
		err = fmt.Errorf("no object in %s: its files have neither controllers nor other manifests", strings.Join(paths, ", "))
	}
	return all, err
}

// of returns the manifests of an argument, and folders of them.
func (f *files) of(path string) ([]string, error) {
	if path == manifest.Stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		p, err := project.ForManifests([]string{path})
		if err != nil {
			return nil, err
		}
		return p.Apply, nil
	}
	beside := []string{path}
	if tests := filepath.Join(path, testsFolder); exists(tests) {
		beside = append(beside, tests)
	}
	if !exists(filepath.Join(path, project.FileName)) {
		return beside, nil
	}
	p, err := project.Load(path)
	if err != nil {
		return nil, err
	}
	f.projects = append(f.projects, p)
	beside, err = manifest.Files(beside)
	return append(p.Apply, slices.DeleteFunc(beside, func(file string) bool { return !hasTests(file) })...), err
}

// hasTests reports whether a file has objects of test.setpoint.dev. Other files of a project are not for
// `setpoint test`, such as those of another way to run the operator.
func hasTests(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && bytes.Contains(text, []byte(manifest.TestGroup+"/"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sort sorts the documents out. Objects of namespaced kinds are in a namespace, as after kubectl apply.
func (w *Workspace) sort() error {
	var problems []error
	for _, d := range w.files.documents {
		if err := w.add(d); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d, d.Object.GetName(), err))
		}
	}
	return errors.Join(problems...)
}

func (w *Workspace) add(d manifest.Document) error {
	if d.IsTest() {
		w.Tests = append(w.Tests, d)
		return checkTest(d)
	}
	o, err := w.complete(d)
	if err != nil {
		return err
	}
	switch kind, controls := compile.KindOf(o); {
	case controls:
		w.Controllers = append(w.Controllers, &Controller{Kind: kind, Object: o, Document: d})
	case o.Kind() == crds.Resource.Kind:
		w.CRDs = append(w.CRDs, o)
	default:
		w.Objects = append(w.Objects, o)
	}
	return nil
}

// The version and the kinds of tests.
const (
	TestVersion     = manifest.TestGroup + "/v1alpha1"
	CaseKind        = "Case"
	ExplorationKind = "Exploration"
	StoryKind       = "Story"
)

func checkTest(d manifest.Document) error {
	kinds := []string{CaseKind, ExplorationKind, StoryKind}
	if d.Object.GetAPIVersion() != TestVersion || !slices.Contains(kinds, d.Object.GetKind()) {
		return fmt.Errorf("no kind %s of %s; %s has %s", d.Object.GetKind(), d.Object.GetAPIVersion(), TestVersion,
			strings.Join(kinds, ", "))
	}
	return nil
}

// complete returns the object of a document, in its namespace.
func (w *Workspace) complete(d manifest.Document) (*object.Object, error) {
	apiVersion, kind := d.Object.GetAPIVersion(), d.Object.GetKind()
	if _, controls := compile.KindNamed(apiVersion, kind); !controls {
		// Also of objects with a namespace: a controller names the plural of a kind without a CRD.
		resource, err := w.Kinds.ResolveKind(context.Background(), apiVersion, kind)
		if err == nil && resource.Namespaced && d.Object.GetNamespace() == "" {
			d.Object.SetNamespace(namespace)
		}
	}
	all, err := manifest.Objects([]manifest.Document{d})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// DocumentOf says where an object is.
func (w *Workspace) DocumentOf(o *object.Object) manifest.Document {
	at := slices.IndexFunc(w.files.documents, func(d manifest.Document) bool { return manifest.RefOf(d.Object) == o.Ref().Identity() })
	return w.files.documents[at]
}

// Digests identify the files with controllers, by their names.
func (w *Workspace) Digests() map[string]string {
	all := map[string]string{}
	for _, c := range w.Controllers {
		if text, err := os.ReadFile(c.Document.File); err == nil {
			sum := sha256.Sum256(text)
			all[c.Document.File] = hex.EncodeToString(sum[:8])
		}
	}
	return all
}
