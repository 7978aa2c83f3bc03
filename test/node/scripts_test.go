//go:build linux

package node_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	registry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/rogpeppe/go-internal/testscript"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/test/node"
	"github.com/setpoint-dev/setpoint/test/node/image"
	"github.com/setpoint-dev/setpoint/test/pages"
)

var machine = node.Node{Root: "../.."}

func TestMain(m *testing.M) { os.Exit(machine.Main(m.Run)) }

// limit ends a wait that is in vain. The machine may be slow.
const limit = 3 * time.Minute

// TestScripts runs the scripts of testdata. README.md explains their commands.
func TestScripts(t *testing.T) {
	testscript.RunT(inOrder{t}, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", os.Getenv("KUBECONFIG"))
			env.Setenv("SETPOINT", os.Getenv("SETPOINT"))
			env.Setenv("CONTAINERD_NAMESPACE", "k8s.io")
			env.Setenv("HOME", env.WorkDir) // kubectl keeps a cache there.
			return os.Symlink(machine.Root, filepath.Join(env.WorkDir, "setpoint"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"apply":      apply,
			"capture":    capture,
			"eventually": eventually,
			"explained":  explained,
			"image":      importImage,
			"kill-pid":   killContainer,
			"ready":      ready,
			"render":     render,
			"restart":    restart,
			"shown":      pages.Compare,
		},
	})
}

// inOrder runs one script after the other: they share one node.
type inOrder struct{ *testing.T }

func (inOrder) Parallel() {}

func (inOrder) Verbose() bool { return testing.Verbose() }

func (t inOrder) Run(name string, script func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { script(inOrder{t}) })
}

// apply ARGUMENT…: kubectl apply, and kubectl delete when the script ends.
func apply(ts *testscript.TestScript, _ bool, args []string) {
	ts.Defer(func() {
		_ = ts.Exec("kubectl", append([]string{"delete", "--ignore-not-found", "--wait=false"}, args...)...)
	})
	ts.Check(ts.Exec("kubectl", append([]string{"apply"}, args...)...))
}

// capture VARIABLE COMMAND…: what the command prints, trimmed, goes into the variable.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec(args[1], args[2:]...))
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// eventually PATTERN COMMAND…: repeats the command until it prints that.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	await(ts, func(context.Context) error {
		err := ts.Exec(args[1], args[2:]...)
		if printed := ts.ReadFile("stdout") + ts.ReadFile("stderr"); !pattern.MatchString(printed) {
			return fmt.Errorf("%s: %v; it prints\n%s", strings.Join(args[1:], " "), err, printed)
		}
		return nil
	})
}

func await(ts *testscript.TestScript, check func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ts.Check(machine.Await(ctx, func() error { return check(context.WithoutCancel(ctx)) }))
}

// image NAME [FOLDER] [PATH=FILE…] -- ENTRYPOINT…: imports an image with everything in a folder of bin/node, and files.
func importImage(ts *testscript.TestScript, _ bool, args []string) {
	at := slices.Index(args, "--")
	i := image.Image{
		Names: args[:1], Files: map[string]string{},
		Config: registry.Config{Entrypoint: args[at+1:], User: "65532", Env: []string{"PATH=/usr/local/bin:/usr/bin"}},
	}
	for _, content := range args[1:at] {
		if path, file, single := strings.Cut(content, "="); single {
			i.Files[path] = ts.MkAbs(file)
		} else {
			i.Folder = content
		}
	}
	ts.Check(machine.ImportImage(context.Background(), i))
}

// ready NAMESPACE SELECTOR COUNT: so many pods have the labels, and all are ready. Otherwise the log says why one is not.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := strconv.Atoi(args[2])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ts.Check(machine.AwaitPods(ctx, args[0], args[1], wanted))
}

// kill-pid NAMESPACE POD: kills the process of the first container by its PID. Another one comes.
func killContainer(ts *testscript.TestScript, _ bool, args []string) {
	find := func(ctx context.Context) (*corev1.Pod, corev1.ContainerStatus) {
		pod, err := machine.Client.CoreV1().Pods(args[0]).Get(ctx, args[1], metav1.GetOptions{})
		ts.Check(err)
		return pod, pod.Status.ContainerStatuses[0]
	}
	_, old := find(context.Background())
	ts.Check(ts.Exec("ctr", "tasks", "list"))
	row := regexp.MustCompile(strings.TrimPrefix(old.ContainerID, "containerd://") + ` +(\d+)`).FindStringSubmatch(ts.ReadFile("stdout"))
	ts.Check(ts.Exec("kill", "-9", row[1]))
	await(ts, func(ctx context.Context) error {
		if pod, now := find(ctx); !now.Ready || now.RestartCount != old.RestartCount+1 {
			return fmt.Errorf("the container has not come back: %s", machine.Explain(ctx, []corev1.Pod{*pod}))
		}
		return nil
	})
}

// render CHART VALUES FILE: what Helm applies for the release setpoint in setpoint-system.
func render(ts *testscript.TestScript, _ bool, args []string) {
	chart, err := loader.Load(ts.MkAbs(args[0]))
	ts.Check(err)
	values, err := common.ReadValues([]byte(args[1]))
	ts.Check(err)
	release := common.ReleaseOptions{Name: "setpoint", Namespace: "setpoint-system"}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	ts.Check(err)
	rendered, err := engine.Render(chart, all)
	ts.Check(err)
	maps.DeleteFunc(rendered, func(file, _ string) bool { return filepath.Ext(file) != ".yaml" })
	documents := slices.Collect(maps.Values(rendered))
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.Join(documents, "\n---\n")), 0o600))
}

// restart COMPONENT: kills a program of the node, and starts it again.
func restart(ts *testscript.TestScript, _ bool, args []string) { ts.Check(machine.Restart(args[0])) }

// explained NAMESPACE TEXT…: what is said of pods there that are not ready has the texts.
func explained(ts *testscript.TestScript, _ bool, args []string) {
	await(ts, func(ctx context.Context) error {
		pods, err := machine.Client.CoreV1().Pods(args[0]).List(ctx, metav1.ListOptions{})
		ts.Check(err)
		said := machine.Explain(ctx, pods.Items)
		for _, text := range args[1:] {
			if !strings.Contains(said, text) {
				return fmt.Errorf("%q is not in the explanation:\n%s", text, said)
			}
		}
		return nil
	})
}
