package project

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Open reads the projects of arguments: folders with a setpoint.yaml, files of manifests, and the Python files of one
// operator, which the interpreter runs. It returns all errors.
func Open(paths []string, interpreter string) ([]*Project, error) {
	var all []*Project
	var problems []error
	add := func(p *Project, err error) { all, problems = append(all, p), append(problems, err) }
	dirs, manifests, operator := Split(paths)
	for _, dir := range dirs {
		add(Load(dir))
	}
	if len(manifests) > 0 {
		add(ForManifests(manifests))
	}
	if len(operator) > 0 {
		add(ForOperator(operator, interpreter))
	}
	return all, errors.Join(problems...)
}

// Split splits arguments into folders, files of manifests, and Python files.
func Split(paths []string) (dirs, manifests, operator []string) {
	for _, path := range paths {
		switch filepath.Ext(path) {
		case ".py":
			operator = append(operator, path)
		case ".yaml", ".yml", ".json":
			manifests = append(manifests, path)
		default:
			dirs = append(dirs, path)
		}
	}
	return dirs, manifests, operator
}

// Load reads the setpoint.yaml of a folder. Its errors name the file and field.
func Load(dir string) (*Project, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p := &Project{Dir: absolute, File: filepath.Join(dir, FileName)}
	data, err := os.ReadFile(p.File)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, notFound(dir, absolute)
	}
	if err != nil {
		return nil, err
	}
	problems := p.read(data)
	for i, problem := range problems {
		problems[i] = fmt.Errorf("%s: %w", p.File, problem)
	}
	return p, errors.Join(problems...)
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

// report collects the problem of a field.
type report func(field, format string, args ...any)

// read reads the text of a setpoint.yaml.
func (p *Project) read(data []byte) (problems []error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return []error{err}
	}
	if problems := object.DecodeStrictly(asJSON, p); len(problems) > 0 {
		return problems
	}
	say := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	for i := range p.Apply {
		p.Apply[i] = existing(p.Dir, p.Apply[i], fmt.Sprintf("apply[%d]", i), say)
	}
	names, ports := map[string]bool{}, map[string]bool{"": true}
	for i := range p.Processes {
		process, field := &p.Processes[i], fmt.Sprintf("processes[%d]", i)
		process.complete(p.Dir, func(name, format string, args ...any) { say(field+"."+name, format, args...) })
		if names[process.Name] {
			say(field+".name", "duplicate process name %q", process.Name)
		}
		names[process.Name] = true
		ports[process.Name] = ports[process.Name] || process.UsesPort()
	}
	for i := range p.Processes {
		for _, name := range p.Processes[i].portsUsed() {
			if !ports[name] {
				say(fmt.Sprintf("processes[%d]", i), "{port:%s}: no process of that name uses {port}", name)
			}
		}
	}
	return problems
}

// complete sets what the file leaves out, makes paths absolute, and checks the process.
func (p *Process) complete(dir string, say report) {
	if len(p.Command) == 0 {
		say("command", "required: the program to run and its arguments")
		return
	}
	p.Dir = existing(dir, cmp.Or(p.Dir, dir), "dir", say)
	if p.ServiceAccountFrom != "" {
		p.ServiceAccountFrom = existing(dir, p.ServiceAccountFrom, "serviceAccountFrom", say)
	}
	for i := range p.Watch {
		p.Watch[i] = within(p.Dir, p.Watch[i])
	}
	if p.Name == "" {
		p.Name = filepath.Base(p.Command[0])
		if p.Service != nil {
			p.Name = p.Service.Name
		}
	}
	switch {
	case p.Service != nil && p.Service.Wrong != "":
		say("service", "%s", p.Service.Wrong)
	case p.Service != nil && !p.UsesPort():
		say("service", `the process needs its port: add "{port}" to command or env`)
	}
	if p.Ready != "" && !p.UsesPort() {
		say("ready", `a readiness path needs a port: add "{port}" to command or env`)
	}
	if p.Ready != "" && p.Ready[0] != '/' {
		say("ready", "must be an HTTP path that starts with /, not %q", p.Ready)
	}
	if len(p.Build) == 0 && slices.ContainsFunc(p.Command, func(word string) bool { return strings.Contains(word, Binary) }) {
		say("command", "%s is written by build: add build, such as [go, build, -o, %q, .]", Binary, Binary)
	}
	p.Written = p.Command
	// Compiling can take minutes, and must not look like a process that does not respond.
	if build, run, ok := splitGoRun(p.Command); ok && len(p.Build) == 0 {
		p.Build, p.Command = build, run
	}
}

// existing returns the absolute path of an existing file or folder.
func existing(dir, name, field string, say report) string {
	path := within(dir, name)
	if _, err := os.Stat(path); name == "" || errors.Is(err, fs.ErrNotExist) {
		say(field, "%s: no such file or folder", name)
	}
	return path
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// ForManifests returns the project of manifest files without a setpoint.yaml: one that applies
// them and runs no process.
func ForManifests(files []string) (*Project, error) {
	p := &Project{File: files[0]}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			return nil, fmt.Errorf("%s: no such file", file)
		}
		if filepath.Base(file) == FileName {
			return nil, fmt.Errorf("%s is no manifest; use its folder, %s", file, filepath.Dir(file))
		}
		absolute, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		p.Apply = append(p.Apply, absolute)
	}
	p.Dir = filepath.Dir(p.Apply[0])
	return p, nil
}
