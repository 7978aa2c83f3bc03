// Package project reads setpoint.yaml: the manifests to apply, and the local processes that
// replace Services.
//
// It reads and validates only.
package project

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// FileName is the file that makes a folder a project.
const FileName = "setpoint.yaml"

// Project is one folder with a setpoint.yaml.
type Project struct {
	// Dir is the folder, absolute.
	Dir string `json:"-"`
	// File is the path of setpoint.yaml as a user would type it.
	File string `json:"-"`
	// Apply lists manifest files and folders of them, applied in this order. Setpoint applies a
	// changed file again, and deletes an object that no file holds any more, but none while a
	// file is empty: it may be being written.
	Apply []string `json:"apply"`
	// Processes run beside the control plane. Each is a list item with the fields below.
	Processes []Process `json:"processes"`
}

// Process is one program in setpoint.yaml.
type Process struct {
	// Name stands before each line of output. Default is the name of service, else of the program.
	Name string `json:"name"`
	// Written is the command as written in the file, for messages.
	Written []string `json:"-"`
	// Build is a command that compiles the program before each start. {binary} in build and in
	// command is a file that setpoint dev chooses. For go run there is no need: setpoint dev
	// compiles it first all the same.
	Build []string `json:"build"`
	// Command is the program and its arguments; required. It may contain {port}. The program setpoint is
	// this binary.
	Command []string `json:"command"`
	// Env has more environment variables; they may contain {port}. KUBECONFIG leads to the
	// control plane, SETPOINT is the path of the binary.
	Env map[string]string `json:"env"`
	// Dir is the working directory. Default is the folder of the file.
	Dir string `json:"dir"`
	// ServiceAccountFrom is a file of manifests with one ServiceAccount, whose rights the process has, as it
	// will have in a cluster. Of the file, setpoint dev applies namespaces, ServiceAccounts, Secrets, roles and
	// their bindings. Default: the process has the rights of an administrator.
	ServiceAccountFrom string `json:"serviceAccountFrom"`
	// Service is NAME.NAMESPACE or NAME.NAMESPACE:PORT: calls to this Service go to the process,
	// so that manifests for a cluster run unchanged. The process must learn its port by {port}.
	Service *Service `json:"service"`
	// Ready is an HTTP path that responds below 400 when the process is ready. Default: it is
	// ready when it accepts connections on its port, or, without a port, when it runs.
	Ready string `json:"ready"`
	// Watch lists files and folders whose changes restart the process. Default: the files that
	// command names and files of their kind beside them, else everything in dir.
	Watch []string `json:"watch"`
	// Port is that of {port}; 0 if the process has none, and before Place.
	Port int `json:"-"`
}

// Environ returns the variables as "KEY=value", sorted.
func (p *Process) Environ() []string {
	return lists.Map(slices.Sorted(maps.Keys(p.Env)), func(name string) string { return name + "=" + p.Env[name] })
}

// Describe names the process and its command, for messages.
func (p *Process) Describe() string {
	return fmt.Sprintf("process %s (%s)", p.Name, strings.Join(p.Written, " "))
}

// HasFile reports whether the project has a setpoint.yaml.
func (p *Project) HasFile() bool { return filepath.Base(p.File) == FileName }

// Name returns what messages call the project: its folder, or its first file.
func (p *Project) Name() string {
	if p.HasFile() {
		return filepath.Dir(p.File)
	}
	return p.File
}
