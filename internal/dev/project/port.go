package project

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// portMarks finds "{port}", which is the port that was found for a process, and
// "{port:NAME}", which is that of another one in the same file.
func portMarks() *regexp.Regexp { return regexp.MustCompile(`\{port(?::([^{}]*))?\}`) }

// UsesPort says whether the process is told a port of its own.
func (p *Process) UsesPort() bool { return slices.Contains(p.portsUsed(), "") }

// portsUsed lists the processes whose ports a process is told, itself as "".
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

// WithPorts is the process with every "{port}" replaced, and every "{port:NAME}"
// by that of the process called so.
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
	replaceAll := func(words []string) []string {
		replaced := make([]string, len(words))
		for i, word := range words {
			replaced[i] = replace(word)
		}
		return replaced
	}
	env := make(map[string]string, len(p.Env))
	for key, value := range p.Env {
		env[key] = replace(value)
	}
	p.Written, p.Command, p.Env = replaceAll(p.Written), replaceAll(p.Command), env
	return p
}
