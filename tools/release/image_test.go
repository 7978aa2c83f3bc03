package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// A node that imports the layout gives the image the name by which pods find it.
func TestLayoutHasTheNameOfTheImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, controller)
	succeed(t, os.WriteFile(program, []byte("a program"), 0o600))
	r := release{root: "../..", dir: dir, version: "1.2.3", time: time.Unix(0, 0)}
	var all []binary
	for _, name := range []string{"setpoint", controller} {
		all = append(all, binary{platform: platforms[0], name: name, path: program})
	}
	succeed(t, r.writeImage(all))
	index := must(layout.ImageIndexFromPath(filepath.Join(dir, "image")))(t)
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v, %v", manifest, err)
	}
	if name := manifest.Manifests[0].Annotations["io.containerd.image.name"]; name != "docker.io/library/setpoint:1.2.3" {
		t.Errorf("the name is %q", name)
	}
}
