package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd/annotate"
	kubectlapply "k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/create"
	kubectldelete "k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/patch"
	"k8s.io/kubectl/pkg/cmd/scale"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectl runs the common commands of kubectl in this process. Scripts use them some 1,500 times, and poll with them five
// times a second: starting kubectl, a program of 150 MB, each time would be most of the load of a test run. Each script
// has its own, with the kinds that its servers serve.
type kubectl struct {
	mu        sync.Mutex
	discovery map[string]discovery.CachedDiscoveryInterface // by server
}

// errOnlyKubectl says that a command needs a process of its own.
var errOnlyKubectl = errors.New("not a command that runs in this process")

// inProcess makes the commands that run in this process, by their names.
var inProcess = map[string]newCommand{
	"annotate": named(annotate.NewCmdAnnotate),
	"apply":    named(kubectlapply.NewCmdApply),
	"create":   create.NewCmdCreate,
	"delete":   kubectldelete.NewCmdDelete,
	"get":      named(get.NewCmdGet),
	"label":    label.NewCmdLabel,
	"patch":    patch.NewCmdPatch,
	"scale":    scale.NewCmdScale,
}

type newCommand = func(util.Factory, genericclioptions.IOStreams) *cobra.Command

// named makes a command that knows the name of its program.
func named(command func(string, util.Factory, genericclioptions.IOStreams) *cobra.Command) newCommand {
	return func(f util.Factory, s genericclioptions.IOStreams) *cobra.Command { return command("kubectl", f, s) }
}

// fatal is how a command of kubectl ends that fails.
type fatal struct{ message string }

// staleKinds are in the errors of commands that need to know the kinds anew.
var staleKinds = []string{"doesn't have a resource type", "no matches for kind", "could not find the requested resource"}

// run runs a command as kubectl would in that folder, with that environment.
func (k *kubectl) run(folder string, environ []string, args ...string) (output, error) {
	out, err := k.once(folder, environ, args)
	if err != nil && slices.ContainsFunc(staleKinds, func(text string) bool { return strings.Contains(err.Error(), text) }) {
		k.forgetKinds()
		out, err = k.once(folder, environ, args)
	}
	return out, err
}

func (k *kubectl) once(folder string, environ, args []string) (out output, err error) {
	at := 0
	for at < len(args) && strings.HasPrefix(args[at], "-") { // Global flags.
		if slices.Contains([]string{"-n", "--namespace", "-s", "--server", "--kubeconfig", "--context", "--as"}, args[at]) {
			at++
		}
		at++
	}
	if at >= len(args) || inProcess[args[at]] == nil || slices.ContainsFunc(args, onlyKubectl) {
		return out, errOnlyKubectl
	}
	flags := genericclioptions.NewConfigFlags(false)
	warnings := rest.NewWarningWriter(&out.stderr, rest.WarningWriterOptions{})
	f := &factory{util.NewFactory(&connection{ConfigFlags: flags, kubectl: k, warnings: warnings})}
	root := &cobra.Command{Use: "kubectl", SilenceErrors: true, SilenceUsage: true}
	flags.AddFlags(root.PersistentFlags())
	root.AddCommand(inProcess[args[at]](f, genericclioptions.IOStreams{In: strings.NewReader(""), Out: &out.stdout, ErrOut: &out.stderr}))
	defer f.release(root)
	root.PersistentPreRunE = func(command *cobra.Command, _ []string) error {
		if command.Name() == "get" && *flags.Timeout == "0" {
			*flags.Timeout = requestTimeout
		}
		*flags.KubeConfig = inFolder(folder, *flags.KubeConfig)
		for _, variable := range environ {
			if value, ok := strings.CutPrefix(variable, "KUBECONFIG="); ok && *flags.KubeConfig == "" {
				*flags.KubeConfig = inFolder(folder, value)
			}
		}
		if *flags.KubeConfig == "" {
			return errOnlyKubectl
		}
		return nil
	}
	args = slices.Clone(args)
	for i, arg := range args {
		if file, is := strings.CutPrefix(arg, "go-template-file="); is {
			args[i] = "go-template-file=" + inFolder(folder, file)
		}
		if i > 0 && slices.Contains([]string{"-f", "--filename", "--patch-file"}, args[i-1]) {
			args[i] = inFolder(folder, arg)
		}
	}
	root.SetArgs(args)
	root.SetOut(&out.stdout)
	root.SetErr(&out.stderr)
	defer func() {
		switch met := recover().(type) {
		case nil:
		case fatal:
			err = errors.New(met.message)
			text := strings.TrimSuffix(met.message, "\n")
			if folder != "" { // kubectl names files as its arguments do.
				text = strings.ReplaceAll(text, folder+"/", "")
			}
			fmt.Fprintln(&out.stderr, text)
		default:
			panic(met)
		}
	}()
	return out, root.Execute()
}

// onlyKubectl reports whether an argument concerns the standard input, files of the working directory, or a watch.
func onlyKubectl(arg string) bool {
	return slices.ContainsFunc([]string{"-w", "--watch", "--from-", "-k", "--kustomize", "--filename="},
		func(prefix string) bool { return arg == "-" || strings.HasPrefix(arg, prefix) })
}

func inFolder(folder, file string) string {
	if file == "" || file == "-" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(folder, file)
}

func (k *kubectl) forgetKinds() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.discovery)
}

// factory makes clients for one command.
type factory struct{ util.Factory }

// release empties what cobra never forgets: the completions of a command refer to its flags, and they to its schemas.
func (f *factory) release(command *cobra.Command) {
	f.Factory = nil
	command.Flags().VisitAll(func(flag *pflag.Flag) { flag.Value = nil })
	for _, below := range command.Commands() {
		f.release(below)
	}
}

// connection is how one command reaches a server.
type connection struct {
	*genericclioptions.ConfigFlags
	kubectl  *kubectl
	warnings rest.WarningHandler
}

// requestTimeout ends requests that get no response. kubectl connects anew each time and may get one.
const requestTimeout = "10s"

func (c *connection) ToRESTConfig() (*rest.Config, error) {
	config, err := c.ConfigFlags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, c.warnings
	return config, nil
}

func (c *connection) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	config, err := c.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	c.kubectl.mu.Lock()
	defer c.kubectl.mu.Unlock()
	key := config.Host + string(config.CAData)
	if known := c.kubectl.discovery[key]; known != nil {
		return known, nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	if c.kubectl.discovery == nil {
		c.kubectl.discovery = map[string]discovery.CachedDiscoveryInterface{}
	}
	c.kubectl.discovery[key] = memory.NewMemCacheClient(client)
	return c.kubectl.discovery[key], nil
}

func (c *connection) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := c.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(client), client, nil), nil
}

// useNamespace creates a namespace, makes it the default of a kubeconfig, and waits until pods can start in it.
func (k *kubectl) useNamespace(kubeconfig, namespace string) error {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return err
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return fmt.Errorf("%s has no current context", kubeconfig)
	}
	current.Namespace = namespace
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return err
	}
	if out, err := k.run("", nil, "--kubeconfig", kubeconfig, "create", "namespace", namespace); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(pollInterval / 4) {
		out, err := k.run("", nil, "--kubeconfig", kubeconfig, "get", "serviceaccount", "default", "-o", "name")
		switch {
		case err == nil:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("wait for the default service account: %w\n%s", err, out)
		}
	}
}

// withManifests runs a command for manifests, which may be in the middle of a script: "kubectl apply".
func (k *kubectl) withManifests(environ []string, text string, args ...string) (output, error) {
	file, err := os.CreateTemp("", "manifests-*.yaml")
	if err != nil {
		return output{}, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if _, err := file.WriteString(text); err != nil {
		return output{}, err
	}
	if err := file.Close(); err != nil {
		return output{}, err
	}
	return k.run("", environ, append(args, "-f", file.Name())...)
}
