// Package image writes images without a container engine: a folder and single files become a file that containerd imports.
package image

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	registry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image has everything in a folder, and files.
type Image struct {
	Names  []string
	Folder string
	// Files are paths here, by their paths in the image. All may read and run them.
	Files  map[string]string
	Config registry.Config
}

// Write writes the image to a file.
func (i Image) Write(file string) error {
	layerFile := file + ".layer"
	defer os.Remove(layerFile)
	if err := i.writeLayer(layerFile); err != nil {
		return err
	}
	layer, err := tarball.LayerFromFile(layerFile)
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, i.Config
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	named := map[name.Tag]registry.Image{}
	for _, one := range i.Names {
		tag, err := name.NewTag(one)
		if err != nil {
			return err
		}
		named[tag] = image
	}
	return tarball.MultiWriteToFile(file, named)
}

func (i Image) writeLayer(file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(out)
	if i.Folder != "" {
		err = archive.AddFS(os.DirFS(i.Folder))
	}
	for _, path := range slices.Sorted(maps.Keys(i.Files)) {
		if err == nil {
			err = add(archive, path, i.Files[path])
		}
	}
	return errors.Join(err, archive.Close(), out.Close())
}

func add(archive *tar.Writer, path, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	about, err := in.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: path, Size: about.Size(), Mode: 0o755}); err != nil {
		return err
	}
	_, err = io.Copy(archive, in)
	return err
}
