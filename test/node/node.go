//go:build linux

// Package node is one real node, with a kubelet, kube-proxy and containerd, on a control plane of the setpoint binary, for the
// tests in this folder. Everything runs in a sandbox (package sandbox) and ends with it.
//
// What lives here: what the node consists of, how it starts, and what tests ask it. What must not: the tests' own objects.
package node

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/controlplane"
	"github.com/setpoint-dev/setpoint/test/node/sandbox"
)

// Node is what the tests of a package share.
type Node struct {
	// Root is the folder of the repository.
	Root string

	Client kubernetes.Interface

	cluster    *controlplane.Cluster
	components map[string]*component
}

// startLimit ends a start that hangs; one that works takes half a minute.
const startLimit = 3 * time.Minute

// Main runs the tests of a package on the node; it is what TestMain does. It prepares what is missing in bin/node, and
// runs this program once more in the sandbox, where it starts the node and then the tests.
func (n *Node) Main(run func() int) int {
	code, err := n.main(run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
	}
	return code
}

func (n *Node) main(run func() int) (code int, err error) {
	if n.Root, err = filepath.Abs(n.Root); err != nil {
		return 1, err
	}
	if !sandbox.Inside() {
		if err := n.prepare(); err != nil {
			return 1, err
		}
		return n.sandbox().Run()
	}
	if err := n.sandbox().Furnish(); err != nil {
		return 1, err
	}
	if err := n.start(); err != nil {
		return 1, err
	}
	return run(), nil
}

// folder keeps what is built, downloaded and logged.
func (n *Node) folder(elements ...string) string {
	return filepath.Join(append([]string{n.Root, "bin", "node"}, elements...)...)
}

func (n *Node) sandbox() sandbox.Sandbox {
	return sandbox.Sandbox{Folder: n.folder("run"), Usr: n.folder("system")}
}

// start starts everything, in this order.
func (n *Node) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	begin := time.Now()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"write the configuration", n.writeConfig},
		{"put programs on the path", n.putOnPath},
		{"set up the network", network},
		{"start containerd", n.startContainerd},
		{"import images", n.importImages},
		{"start the control plane", n.startControlPlane},
		{"start the node", n.startNode},
	} {
		stepBegin := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(os.Stderr, "node: %s: %.1fs\n", step.name, time.Since(stepBegin).Seconds())
	}
	fmt.Fprintf(os.Stderr, "node: ready after %.1fs; logs are in %s\n", time.Since(begin).Seconds(), n.folder("logs"))
	return nil
}

//go:embed config
var config embed.FS

// home is a path of the sandbox.
func home(elements ...string) string {
	return filepath.Join(append([]string{sandbox.Home}, elements...)...)
}

func (n *Node) writeConfig(context.Context) error {
	values := strings.NewReplacer("CGROUP", n.sandbox().Cgroup(), "PAUSE", pauseImage)
	return fs.WalkDir(config, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := config.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(home(filepath.Dir(path)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(home(path), []byte(values.Replace(string(text))), 0o644)
	})
}

// putOnPath makes setpoint, kubectl and the programs of the node commands, for what runs here and in scripts.
func (n *Node) putOnPath(context.Context) error {
	n.components = map[string]*component{}
	binary := cmp.Or(os.Getenv("SETPOINT"), n.folder("..", "setpoint"))
	programs := home("programs")
	return errors.Join(
		os.RemoveAll(n.folder("logs")), os.Mkdir(n.folder("logs"), 0o755), os.Mkdir(programs, 0o755),
		os.Symlink(binary, filepath.Join(programs, "setpoint")),
		os.WriteFile(filepath.Join(programs, "kubectl"), []byte("#!/bin/sh\nexec setpoint kubectl \"$@\"\n"), 0o755),
		os.Setenv("SETPOINT", binary),
		os.Setenv("PATH", strings.Join([]string{programs, n.folder("programs"), os.Getenv("PATH")}, ":")),
	)
}

// network gives the node its address, on the bridge of its pods. All else is kube-proxy's.
func network(ctx context.Context) error {
	for _, command := range []string{
		"ip link set lo up",
		"ip link add cni0 type bridge",
		"ip address add " + address + "/24 dev cni0",
		"ip link set cni0 up",
		"ip route add default dev cni0",
	} {
		if _, err := Output(ctx, strings.Fields(command)...); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// address is the one of the node: of its kubelet, of the API server, and of DNS.
const address = "10.244.0.1"

// startControlPlane boots it without simulated nodes. The API server listens on the node's address too, so that it is in the
// endpoints of the Service kubernetes, as in any cluster.
func (n *Node) startControlPlane(ctx context.Context) (err error) {
	proxy := home("cluster", "pki", "front-proxy")
	n.cluster, err = controlplane.Start(ctx, controlplane.Options{
		Executable: os.Getenv("SETPOINT"), DataDir: home("cluster"), Nodes: -1,
		Args: map[string][]string{
			"etcd": {"--unsafe-no-fsync"},
			"kube-apiserver": {
				"--bind-address=0.0.0.0", "--advertise-address=" + address, "--endpoint-reconciler-type=lease",
				"--kubelet-preferred-address-types=InternalIP",
				"--kubelet-client-certificate=" + proxy + ".crt", "--kubelet-client-key=" + proxy + ".key",
			},
		},
	})
	if err != nil {
		return err
	}
	if err := os.Setenv("KUBECONFIG", n.cluster.Kubeconfig()); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", n.cluster.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 100, 100
	n.Client, err = kubernetes.NewForConfig(config)
	return err
}
