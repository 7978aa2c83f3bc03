package project

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// portMark is replaced by the port that was found for a process.
const portMark = "{port}"

// usesPort says whether the process is told a port at all.
func (p *Process) usesPort() bool {
	marked := func(s string) bool { return strings.Contains(s, portMark) }
	return slices.ContainsFunc(p.Command, marked) || slices.ContainsFunc(slices.Collect(maps.Values(p.Env)), marked)
}

// WithPort is the process with every "{port}" replaced.
func (p Process) WithPort(port int) Process {
	replace := strings.NewReplacer(portMark, strconv.Itoa(port)).Replace
	command := make([]string, len(p.Command))
	for i, word := range p.Command {
		command[i] = replace(word)
	}
	env := make(map[string]string, len(p.Env))
	for key, value := range p.Env {
		env[key] = replace(value)
	}
	p.Command, p.Env = command, env
	return p
}
