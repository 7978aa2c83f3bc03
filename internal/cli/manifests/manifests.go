// Package manifests reads the objects in the files that arguments name.
package manifests

import (
	"fmt"
	"io"
	"os"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ReadObjects reads files and folders, and standard input where one is "-".
func ReadObjects(stdin io.Reader, files []string) ([]*object.Object, error) {
	var documents []manifest.Document
	for _, file := range files {
		var some []manifest.Document
		var err error
		if file == stdinArg {
			some, err = manifest.ReadFrom("standard input", stdin)
		} else {
			some, err = manifest.Read([]string{file})
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, some...)
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

// stdinArg is standard input as a file.
const stdinArg = "-"

// IsFile reports whether an argument is a file or folder, not a controller.
func IsFile(arg string) bool {
	if arg == stdinArg || manifest.HasExtension(arg) {
		return true
	}
	_, err := os.Stat(arg)
	return err == nil
}
