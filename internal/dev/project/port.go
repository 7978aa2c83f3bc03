package project

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// portMark matches "{port}", the port of the process, and "{port:NAME}", that of another
// process in the file.
var portMark = regexp.MustCompile(`\{port(?::([^{}]*))?\}`)

// Place chooses a port for each process that uses one, and replaces "{port}" and "{port:NAME}" by it, "{binary}" by a
// path, and the program setpoint by an executable.
func (p *Project) Place(free func() (int, error), executable string) (err error) {
	ports := map[string]int{}
	for i := range p.Processes {
		process := &p.Processes[i]
		if !process.UsesPort() {
			continue
		}
		if process.Port, err = free(); err != nil {
			return fmt.Errorf("process %s: find a free port: %w", process.Name, err)
		}
		ports[process.Name] = process.Port
	}
	for i := range p.Processes {
		process := &p.Processes[i]
		if len(process.Build) > 0 {
			folder, err := p.cacheFolder()
			if err != nil {
				return fmt.Errorf("process %s: find a folder for the binary: %w", process.Name, err)
			}
			binary := filepath.Join(folder, process.Name)
			process.replace(func(word string) string { return strings.ReplaceAll(word, Binary, binary) })
		}
		process.replace(func(word string) string {
			return portMark.ReplaceAllStringFunc(word, func(mark string) string {
				if name := portMark.FindStringSubmatch(mark)[1]; name != "" {
					return strconv.Itoa(ports[name])
				}
				return strconv.Itoa(process.Port)
			})
		})
		if process.Command[0] == Setpoint {
			process.Command[0] = executable
		}
	}
	return nil
}

// replace replaces each word of the process.
func (p *Process) replace(by func(string) string) {
	p.Written, p.Build, p.Command = lists.Map(p.Written, by), lists.Map(p.Build, by), lists.Map(p.Command, by)
	env := make(map[string]string, len(p.Env))
	for key, value := range p.Env {
		env[key] = by(value)
	}
	p.Env = env
}

// UsesPort reports whether the process uses a port of its own.
func (p *Process) UsesPort() bool { return slices.Contains(p.portsUsed(), "") }

// portsUsed returns the processes whose ports a process uses, itself as "".
func (p *Process) portsUsed() []string {
	var names []string
	for _, text := range slices.Concat(p.Command, slices.Collect(maps.Values(p.Env))) {
		for _, mark := range portMark.FindAllStringSubmatch(text, -1) {
			names = append(names, mark[1])
		}
	}
	return names
}
