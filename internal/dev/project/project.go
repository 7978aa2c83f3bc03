// Package project reads setpoint.yaml: the manifests to apply, and the local processes that
// replace Services.
//
// It reads and validates only.
package project

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"sigs.k8s.io/yaml"
)

// FileName is the file that makes a folder a project.
const FileName = "setpoint.yaml"

// Project is one folder with a setpoint.yaml.
type Project struct {
	// Dir is the folder, absolute.
	Dir string
	// File is the path of setpoint.yaml as a user would type it.
	File string
	// Apply lists manifest files and folders of them, applied in this order. Setpoint applies a
	// changed file again, and deletes an object that no file holds any more, but none while a
	// file is empty: it may be being written.
	Apply []string
	// Processes run beside the control plane. Each is a list item with the fields below.
	Processes []Process
}

// Process is one program in setpoint.yaml.
type Process struct {
	// Name stands before each line of output. Default is the name of service, else of the program.
	Name string
	// Written is the command as written in the file, for messages.
	Written []string
	// Build is a command that compiles the program before each start. {binary} in build and in
	// command is a file that setpoint dev chooses. For go run there is no need: setpoint dev
	// compiles it first all the same.
	Build []string
	// Command is the program and its arguments; required. It may contain {port}. The program setpoint is
	// this binary.
	Command []string
	// Env has more environment variables; they may contain {port}. KUBECONFIG leads to the
	// control plane, SETPOINT is the path of the binary.
	Env map[string]string
	// Dir is the working directory. Default is the folder of the file.
	Dir string
	// ServiceAccountFrom is a file of manifests with one ServiceAccount, whose rights the process has, as it
	// will have in a cluster. Of the file, setpoint dev applies namespaces, ServiceAccounts, Secrets, roles and
	// their bindings. Default: the process has the rights of an administrator.
	ServiceAccountFrom string
	// Service is NAME.NAMESPACE or NAME.NAMESPACE:PORT: calls to this Service go to the process,
	// so that manifests for a cluster run unchanged. The process must learn its port by {port}.
	Service *Service
	// Ready is an HTTP path that responds below 400 when the process is ready. Default: it is
	// ready when it accepts connections on its port, or, without a port, when it runs.
	Ready string
	// Watch lists files and folders whose changes restart the process. Default: the files that
	// command names and files of their kind beside them, else everything in dir.
	Watch []string
}

// Load reads the setpoint.yaml of a folder. Its errors name the file and field.
func Load(dir string) (*Project, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, FileName)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, notFound(dir, absolute)
	}
	if err != nil {
		return nil, err
	}
	p, problems := parse(data, absolute)
	for i, problem := range problems {
		problems[i] = fmt.Errorf("%s: %w", file, problem)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	p.File = file
	return p, nil
}

// notFound explains why a folder has no setpoint.yaml.
func notFound(dir, absolute string) error {
	info, err := os.Stat(absolute)
	switch {
	case err != nil:
		return fmt.Errorf("%s: no such folder", dir)
	case !info.IsDir():
		return fmt.Errorf("%s is a file; use the folder of a %s", dir, FileName)
	}
	return fmt.Errorf("%s has no %s with manifests to apply and processes to run", dir, FileName)
}

// parse reads a setpoint.yaml in the folder dir.
func parse(data []byte, dir string) (*Project, []error) {
	var tree any
	if err := yaml.UnmarshalStrict(data, &tree); err != nil {
		return nil, []error{err}
	}
	if tree == nil {
		tree = map[string]any{}
	}
	var problems []error
	p := readProject(node{value: tree, problems: &problems}, dir)
	return p, problems
}

func readProject(n node, dir string) *Project {
	fields := n.object("apply", "processes")
	p := &Project{Dir: dir}
	for _, item := range fields.field("apply").list() {
		p.Apply = append(p.Apply, item.existing(dir))
	}
	seen := map[string]bool{}
	for _, item := range fields.field("processes").list() {
		process := readProcess(item, dir)
		if seen[process.Name] {
			item.field("name").errorf("duplicate process name %q", process.Name)
		}
		seen[process.Name] = true
		p.Processes = append(p.Processes, process)
	}
	p.checkPorts(fields.field("processes"))
	return p
}

// checkPorts checks references to ports.
func (p *Project) checkPorts(n node) {
	has := map[string]bool{"": true}
	for _, process := range p.Processes {
		has[process.Name] = has[process.Name] || process.UsesPort()
	}
	for i, process := range p.Processes {
		for _, name := range process.portsUsed() {
			if !has[name] {
				n.list()[i].errorf("{port:%s}: no process of that name uses {port}", name)
			}
		}
	}
}

func readProcess(n node, dir string) Process {
	n = n.object("name", "build", "command", "env", "dir", "serviceAccountFrom", "service", "ready", "watch")
	p := Process{
		Name:    n.field("name").text(),
		Build:   n.field("build").strings(),
		Command: n.field("command").strings(),
		Env:     n.field("env").textMap(),
		Dir:     dir,
		Ready:   n.field("ready").text(),
	}
	if n.field("dir").value != nil {
		p.Dir = n.field("dir").existing(dir)
	}
	if file := n.field("serviceAccountFrom"); file.value != nil {
		p.ServiceAccountFrom = file.existing(dir)
	}
	for _, path := range n.field("watch").list() {
		p.Watch = append(p.Watch, within(p.Dir, path.required()))
	}
	if len(p.Command) == 0 {
		n.field("command").errorf("required: the program to run and its arguments")
		return p
	}
	if service := n.field("service"); service.value != nil {
		p.Service = readService(service)
	}
	if p.Name == "" {
		p.Name = p.defaultName()
	}
	p.check(n)
	p.Written = p.Command
	p.compileFirst()
	return p
}

// Environ returns the variables as "KEY=value", sorted.
func (p *Process) Environ() []string {
	return lists.Map(slices.Sorted(maps.Keys(p.Env)), func(name string) string { return name + "=" + p.Env[name] })
}

// Describe names the process and its command, for messages.
func (p *Process) Describe() string {
	return fmt.Sprintf("process %s (%s)", p.Name, strings.Join(p.Written, " "))
}

// check checks rules about several fields.
func (p *Process) check(n node) {
	if p.Service != nil && !p.UsesPort() {
		n.field("service").errorf(`the process needs its port: add "{port}" to command or env`)
	}
	if p.Ready != "" && !p.UsesPort() {
		n.field("ready").errorf(`a readiness path needs a port: add "{port}" to command or env`)
	}
	if len(p.Build) == 0 && slices.ContainsFunc(p.Command, func(word string) bool { return strings.Contains(word, Binary) }) {
		n.field("command").errorf("%s is written by build: add build, such as [go, build, -o, %q, .]", Binary, Binary)
	}
	if p.Ready != "" && p.Ready[0] != '/' {
		n.field("ready").errorf("must be an HTTP path that starts with /, not %q", p.Ready)
	}
}

// defaultName returns the name of the Service, else of the program.
func (p *Process) defaultName() string {
	if p.Service != nil {
		return p.Service.Name
	}
	return filepath.Base(p.Command[0])
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
