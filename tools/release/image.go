package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	registry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/setpoint-dev/setpoint/tools/release/install"
)

// imageName is the name of the image and of its file, which Dockerfiles of users copy.
const imageName = "setpoint"

// writeImage writes the image of what a cluster runs, for all Linux platforms as an OCI layout: a folder that `crane push`,
// `skopeo copy oci:` or `ctr image import` read.
func (r *release) writeImage(binaries []binary) error {
	system, err := r.systemLayer()
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		if b.name != controller {
			continue
		}
		image, err := r.image(system, b)
		if err != nil {
			return fmt.Errorf("image for %s: %w", b.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: registry.Descriptor{
			Platform: &registry.Platform{OS: b.os, Architecture: b.arch},
		}})
	}
	folder := filepath.Join(r.dir, "image")
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		// The name of the image on a node that imports it: that by which pods find an image without a registry. From the
		// tag alone, containerd makes up another one, to which the kubelet then resolves the image.
		"io.containerd.image.name": "docker.io/library/" + imageName + ":" + r.version,
	}))
}

// image returns the image of a binary.
func (r *release) image(system registry.Layer, b binary) (registry.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	layer, err := r.layer([]entry{{imageName, program, 0o755}})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	history := registry.History{Created: registry.Time{Time: r.time}, CreatedBy: "github.com/setpoint-dev/setpoint/tools/release"}
	image, err = mutate.Append(image, mutate.Addendum{Layer: system, History: history}, mutate.Addendum{Layer: layer, History: history})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file.OS, file.Architecture, file.Created = b.os, b.arch, registry.Time{Time: r.time}
	file.Config = registry.Config{
		Entrypoint: []string{"/" + imageName}, Cmd: []string{"run"}, WorkingDir: "/",
		User: strconv.Itoa(install.UserID) + ":" + strconv.Itoa(install.UserID),
		Env:  []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.title": imageName, "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.revision": r.commit.digest,
		},
	}
	return mutate.ConfigFile(image, file)
}

// systemLayer holds what a static binary needs of a system: CA certificates, time zones, its user, and
// a folder for temporary files, which is empty and read-only unless the pod mounts one.
func (r *release) systemLayer() (registry.Layer, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	zones, err := timeZones(filepath.Join(strings.TrimSpace(string(goroot)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	id := install.UserID
	return r.layer(append(zones,
		entry{"etc/ssl/certs/ca-certificates.crt", caCertificates(), 0o644},
		entry{"etc/passwd", fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/:/sbin/nologin\n", id, id),
			0o644},
		entry{"etc/group", fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", id), 0o644},
		entry{"tmp/", nil, 0o1777},
	))
}

func (r *release) layer(entries []entry) (registry.Layer, error) {
	data, err := newTar(entries, r.time)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer))
}
