// Package image writes images without a container engine: a folder becomes a file that containerd imports.
package image

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	registry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is made of one folder.
type Image struct {
	Name   string
	Folder string
	Config registry.Config
}

// Write writes the image to a file.
func (i Image) Write(file string) error {
	tag, err := name.NewTag(i.Name)
	if err != nil {
		return err
	}
	layerFile := file + ".layer"
	defer os.Remove(layerFile)
	if err := writeTar(layerFile, i.Folder); err != nil {
		return fmt.Errorf("pack %s: %w", i.Folder, err)
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
	return tarball.WriteToFile(file, tag, image)
}

func writeTar(file, folder string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	return pack(out, folder)
}

func pack(out io.Writer, folder string) error {
	archive := tar.NewWriter(out)
	if err := archive.AddFS(os.DirFS(folder)); err != nil {
		return err
	}
	return archive.Close()
}
