//go:build linux

package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	registry "github.com/google/go-containerregistry/pkg/v1"

	"github.com/setpoint-dev/setpoint/test/node/debian"
	"github.com/setpoint-dev/setpoint/test/node/image"
)

// Names of images for tests. There is no registry: each image is imported under its names.
const (
	pauseImage   = "docker.io/test/pause:1"
	BusyboxImage = "docker.io/test/busybox:1"
	PythonImage  = "docker.io/test/python:3"
)

// nftables is the program behind iptables that Debian chooses.
const nftables = "xtables-nft-multi"

// unpacked are the folders of Debian's packages in bin/node.
var unpacked = []debian.Packages{
	// The programs that containerd, kubelet, kube-proxy and scripts call.
	{
		Folder: "system",
		Names:  []string{"runc", "containernetworking-plugins", "iptables", "iproute2", "curl", "chromium", "fonts-dejavu-core"},
		Links: map[string]string{
			"usr/sbin/iptables": nftables, "usr/sbin/iptables-save": nftables, "usr/sbin/iptables-restore": nftables,
			"usr/sbin/ip6tables": nftables, "usr/sbin/ip6tables-save": nftables, "usr/sbin/ip6tables-restore": nftables,
		},
	},
	{
		Folder: "busybox", Names: []string{"busybox-static"}, System: true,
		Links: map[string]string{"usr/bin/sh": "busybox", "usr/bin/sleep": "busybox", "usr/bin/wget": "busybox"},
	},
	{Folder: "python", Names: []string{"busybox-static", "python3-flask", "python3-kubernetes", "python3-requests"}, System: true},
}

// images are made of them. They have the names that examples use, too: what is nginx there is a web server here.
var images = []image.Image{
	{
		Names: []string{pauseImage}, Folder: "busybox",
		Config: registry.Config{Entrypoint: []string{"/bin/busybox", "sleep", "inf"}},
	},
	{
		Names: []string{
			BusyboxImage, "docker.io/library/busybox:1.37", "docker.io/library/nginx:1.27", "docker.io/library/nginx:1.28",
		},
		Folder: "busybox",
		Config: registry.Config{Cmd: []string{"/bin/sh", "-c", "echo hello >/index.html; trap exit TERM; busybox httpd -f -h / & wait"}},
	},
	{
		Names: []string{PythonImage, "docker.io/library/python:3.13-alpine"}, Folder: "python",
		Config: registry.Config{Cmd: []string{"/usr/bin/python3"}},
	},
}

// prepare unpacks the packages that bin/node does not have.
func (n *Node) prepare() error {
	packages := slices.Clone(unpacked)
	for i := range packages {
		packages[i].Folder = n.folder(packages[i].Folder)
	}
	return debian.Unpack(context.Background(), packages, n.folder("apt"), os.Stderr)
}

// importImages gives containerd the images above.
func (n *Node) importImages(ctx context.Context) error {
	for _, i := range images {
		if err := n.ImportImage(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// ImportImage writes an image and gives it to the kubelet. Its folder is one of bin/node, or "".
func (n *Node) ImportImage(ctx context.Context, i image.Image) error {
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if i.Folder != "" {
		i.Folder = n.folder(i.Folder)
	}
	file := filepath.Join(folder, "image.tar")
	if err := i.Write(file); err != nil {
		return err
	}
	_, err = Output(ctx, "ctr", "-n", "k8s.io", "images", "import", file)
	return err
}
