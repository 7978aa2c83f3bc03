//go:build linux

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	registry "github.com/google/go-containerregistry/pkg/v1"

	"github.com/setpoint-dev/setpoint/test/node/debian"
	"github.com/setpoint-dev/setpoint/test/node/image"
)

// Names of images. There is no registry; each is imported under its name.
const (
	pauseImage = "docker.io/test/pause:1"
	// BusyboxImage has busybox and its shell; PythonImage has Python and Flask as well.
	BusyboxImage = "docker.io/test/busybox:1"
	PythonImage  = "docker.io/test/python:3"
)

// nftables is the program behind iptables that Debian chooses.
const nftables = "xtables-nft-multi"

// unpacked are the folders of Debian's packages in bin/node.
var unpacked = []debian.Packages{
	// The programs that containerd, kubelet and kube-proxy call.
	{
		Folder: "system", Names: []string{"runc", "containernetworking-plugins", "iptables", "iproute2"},
		Links: map[string]string{
			"usr/sbin/iptables": nftables, "usr/sbin/iptables-save": nftables, "usr/sbin/iptables-restore": nftables,
			"usr/sbin/ip6tables": nftables, "usr/sbin/ip6tables-save": nftables, "usr/sbin/ip6tables-restore": nftables,
		},
	},
	{Folder: "busybox", Names: []string{"busybox-static"}, System: true},
	{Folder: "python", Names: []string{"busybox-static", "python3-flask"}, System: true},
}

// images are made of them.
var images = map[string]image.Image{
	"pause":   {Name: pauseImage, Folder: "busybox", Config: registry.Config{Entrypoint: []string{"/bin/busybox", "sleep", "inf"}}},
	"busybox": {Name: BusyboxImage, Folder: "busybox", Config: registry.Config{Cmd: []string{"/bin/busybox", "sh"}}},
	"python":  {Name: PythonImage, Folder: "python", Config: registry.Config{Cmd: []string{"/usr/bin/python3"}}},
}

// prepare unpacks packages and writes images, where bin/node does not have them.
func (n *Node) prepare() error {
	ctx := context.Background()
	packages := slices.Clone(unpacked)
	for i := range packages {
		packages[i].Folder = n.folder(packages[i].Folder)
	}
	if err := debian.Unpack(ctx, packages, n.folder("apt"), os.Stderr); err != nil {
		return err
	}
	if err := os.MkdirAll(n.folder("images"), 0o755); err != nil {
		return err
	}
	for name, i := range images {
		i.Folder = n.folder(i.Folder)
		if err := writeImage(i, n.imageFile(name)); err != nil {
			return fmt.Errorf("write image %s: %w", name, err)
		}
	}
	return nil
}

func (n *Node) imageFile(name string) string { return n.folder("images", name+".tar") }

// writeImage writes an image unless the file is newer than the folder.
func writeImage(i image.Image, file string) error {
	folder, err := os.Stat(i.Folder)
	if err != nil {
		return err
	}
	if written, err := os.Stat(file); err == nil && written.ModTime().After(folder.ModTime()) {
		return nil
	}
	return i.Write(file)
}

// importImages gives containerd the images above.
func (n *Node) importImages(ctx context.Context) error {
	for name := range images {
		if _, err := n.Ctr(ctx, "images", "import", n.imageFile(name)); err != nil {
			return err
		}
	}
	return nil
}

// Ctr runs ctr in the namespace of Kubernetes.
func (n *Node) Ctr(ctx context.Context, args ...string) (string, error) {
	return output(ctx, append([]string{n.program("ctr"), "-n", "k8s.io"}, args...)...)
}

// ImportProgram makes an image of a program that was built for the node, and imports it. The image has nothing else.
func (n *Node) ImportProgram(ctx context.Context, name, program string) error {
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	root := filepath.Join(folder, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "operator"), text, 0o755); err != nil {
		return err
	}
	file := filepath.Join(folder, "image.tar")
	// As examples/Dockerfile makes it.
	i := image.Image{Name: name, Folder: root, Config: registry.Config{Entrypoint: []string{"/operator"}, User: "65532"}}
	if err := i.Write(file); err != nil {
		return err
	}
	_, err = n.Ctr(ctx, "images", "import", file)
	return err
}
