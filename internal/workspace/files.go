package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
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
