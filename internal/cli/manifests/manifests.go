// Package manifests reads the objects in the files that arguments name.
package manifests

import (
	"fmt"
	"os"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ReadObjects reads files and folders, and standard input where one is "-".
func ReadObjects(files []string) ([]*object.Object, error) {
	documents, err := manifest.Read(files)
	if err != nil {
		return nil, err
	}
	return ParseDocuments(documents)
}

// ParseDocuments returns the objects of documents. It refuses unknown fields of controllers.
func ParseDocuments(documents []manifest.Document) ([]*object.Object, error) {
	all, err := manifest.Objects(documents)
	if err != nil {
		return nil, err
	}
	for i, one := range all {
		if _, is := compile.KindOf(one); !is {
			continue
		}
		if err := compile.CheckFields(one); err != nil {
			return nil, fmt.Errorf("%s: %s/%s: %w", documents[i], one.Kind(), one.Name(), err)
		}
	}
	return all, nil
}

// IsFile reports whether an argument is a file or folder, not a controller.
func IsFile(arg string) bool {
	if arg == manifest.Stdin || manifest.HasExtension(arg) {
		return true
	}
	_, err := os.Stat(arg)
	return err == nil
}
