package project

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// portMarks matches "{port}", the port of the process, and "{port:NAME}", that of another
// process in the file.
func portMarks() *regexp.Regexp { return regexp.MustCompile(`\{port(?::([^{}]*))?\}`) }

// Ports finds a port for each process that uses one, by name.
func (p *Project) Ports(free func() (int, error)) (map[string]int, error) {
	ports := map[string]int{}
	for i := range p.Processes {
		if !p.Processes[i].UsesPort() {
			continue
		}
		port, err := free()
		if err != nil {
			return nil, fmt.Errorf("process %s: find a free port: %w", p.Processes[i].Name, err)
		}
		ports[p.Processes[i].Name] = port
	}
	return ports, nil
}

// UsesPort reports whether the process uses a port of its own.
func (p *Process) UsesPort() bool { return slices.Contains(p.portsUsed(), "") }

// portsUsed returns the processes whose ports a process uses, itself as "".
func (p *Process) portsUsed() []string {
	var names []string
	marks := portMarks()
	for _, text := range slices.Concat(p.Command, slices.Collect(maps.Values(p.Env))) {
		for _, mark := range marks.FindAllStringSubmatch(text, -1) {
			names = append(names, mark[1])
		}
	}
	return names
}

// WithPorts replaces "{port}" and "{port:NAME}".
func (p Process) WithPorts(own int, others map[string]int) Process {
	marks := portMarks()
	replace := func(text string) string {
		return marks.ReplaceAllStringFunc(text, func(mark string) string {
			if name := marks.FindStringSubmatch(mark)[1]; name != "" {
				return strconv.Itoa(others[name])
			}
			return strconv.Itoa(own)
		})
	}
	env := make(map[string]string, len(p.Env))
	for key, value := range p.Env {
		env[key] = replace(value)
	}
	p.Written, p.Command, p.Env = replaceEach(p.Written, replace), replaceEach(p.Command, replace), env
	return p
}
