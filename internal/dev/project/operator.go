package project

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Setpoint is the program of a command that is `setpoint` itself; it need not be on the PATH.
const Setpoint = "setpoint"

// ForOperator returns the project of an operator in Python files, without a setpoint.yaml: one
// process that runs them, and is restarted when one of them or a file beside them changes.
func ForOperator(files []string, interpreter string) (*Project, error) {
	dir, err := filepath.Abs(filepath.Dir(files[0]))
	if err != nil {
		return nil, err
	}
	command := []string{Setpoint, "run", "--address=127.0.0.1:{port}"}
	if interpreter != "" {
		// It is run in the folder of the files; a name without a folder is found on the PATH.
		path, err := exec.LookPath(interpreter)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, fmt.Errorf("--python-interpreter: %w", err)
		}
		command = append(command, "--python-interpreter="+path)
	}
	command = append(command, "--python")
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%s: no such file", file)
		}
		absolute, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		relative, err := filepath.Rel(dir, absolute)
		if err != nil || !filepath.IsLocal(relative) {
			return nil, fmt.Errorf("%s is not in %s, the folder of %s: for files of several folders, write a %s with this command: "+
				"[setpoint, run, --python, %s]",
				file, dir, files[0], FileName, strings.Join(files, ", "))
		}
		command = append(command, relative)
	}
	name := strings.TrimSuffix(filepath.Base(files[0]), filepath.Ext(files[0]))
	process := Process{Name: name, Written: command, Command: command, Dir: dir, Ready: "/readyz"}
	return &Project{Dir: dir, File: files[0], Processes: []Process{process}}, nil
}

// RunsOperator reports whether the process is `setpoint run` of an operator.
func (p *Process) RunsOperator() bool {
	return len(p.Written) > 1 && p.Written[0] == Setpoint && p.Written[1] == "run"
}
