package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// contender is one way to write the operator.
type contender struct {
	name, title string
	source      source
	// operator is what is started, ended by force and started again.
	operator command
	// hook, if there is one, stays meanwhile.
	hook *command
	// controller is the manifest that configures the operator, if any.
	controller string
	// needs is the binary that is run, without which the contender is left out;
	// built is how one comes by it.
	needs, built string
}

// source is what lies in the repository, by who writes it.
type source struct{ program, crd, scaffolded, generated []string }

// command is a program. In its arguments and environment, $BIN, $HERE, $KUBECONFIG,
// $RATES, $HOOK and $ADDRESS stand for what they are in this run.
type command struct {
	args, env []string
}

// expand replaces what stands for something.
func (c command) expand(values map[string]string) []string {
	replace := func(name string) string { return values[name] }
	line := []string{"env"}
	for _, part := range slices.Concat(c.env, c.args) {
		line = append(line, os.Expand(part, replace))
	}
	return line
}

const (
	compareDir = "test/bench/compare/"
	example    = "examples/exchangerate/"
	crdFile    = "operators.brennerm.github.io_exchangerates.yaml"
)

// contenders returns all contenders in the order of the table. Besides addresses, they
// get one setting: the maximum concurrent reconciles.
func contenders() []contender {
	crd := []string{example + crdFile}
	inherited := []string{"KUBECONFIG=$KUBECONFIG", "RATES=$RATES"}
	reconciler := source{
		program: []string{
			compareDir + "kubebuilder/api/v1/exchangerate_types.go",
			compareDir + "kubebuilder/internal/controller/exchangerate_controller.go",
			compareDir + "kubebuilder/internal/rates/service.go",
		},
		scaffolded: []string{compareDir + "kubebuilder/cmd/main.go", compareDir + "kubebuilder/api/v1/groupversion_info.go"},
		generated:  append([]string{compareDir + "kubebuilder/api/v1/zz_generated.deepcopy.go"}, crd...),
	}
	return []contender{{
		name: "kopf", title: "Kopf",
		source: source{program: []string{compareDir + "kopf/exchangerate.py"}, crd: crd},
		operator: command{env: inherited, args: []string{"$BIN/compare-kopf/bin/kopf", "run", "--standalone", "--all-namespaces",
			"$HERE/kopf/exchangerate.py"}},
		needs: "compare-kopf/bin/kopf", built: "test/bench/compare/kopf/install.sh bin/compare-kopf",
	}, {
		name: "setpoint-kopf", title: "the same file, Setpoint",
		source: source{program: []string{compareDir + "kopf/exchangerate.py"}, crd: crd},
		operator: command{env: append(inherited, "PYTHONUNBUFFERED=1"), args: []string{
			"$BIN/setpoint-controller", "run", "--python", "$HERE/kopf/exchangerate.py", "--address="}},
		needs: "setpoint-controller", built: "make build",
	}, {
		name: "kubebuilder", title: "kubebuilder, 1 at once (default)",
		source: reconciler, needs: "compare-kubebuilder", built: "make bin/compare-kubebuilder",
		operator: command{env: inherited, args: []string{"$BIN/compare-kubebuilder"}},
	}, {
		name: "kubebuilder-32", title: "kubebuilder, 32 at once",
		source: reconciler, needs: "compare-kubebuilder", built: "make bin/compare-kubebuilder",
		operator: command{env: inherited, args: []string{"$BIN/compare-kubebuilder", "-workers=32"}},
	}, {
		name: "setpoint-go", title: "Setpoint, Go",
		source:   source{program: []string{example + "main.go", example + "service.go"}, crd: crd},
		operator: command{env: inherited, args: []string{"$BIN/compare-setpoint", "--address="}},
		needs:    "compare-setpoint", built: "make bin/compare-setpoint",
	}, {
		name: "setpoint-webhook", title: "Setpoint, Python hook",
		source:   source{program: []string{compareDir + "webhook/hook.py", compareDir + "webhook/controller.yaml"}, crd: crd},
		operator: command{args: []string{"$BIN/setpoint-controller", "run", "--kubeconfig=$KUBECONFIG", "--address="}},
		hook: &command{env: []string{"RATES=$RATES", "ADDRESS=$ADDRESS"},
			args: []string{"python3", "$HERE/webhook/hook.py"}},
		controller: "webhook/controller.yaml", needs: "setpoint-controller", built: "make build",
	}}
}

func names() []string {
	var all []string
	for _, c := range contenders() {
		all = append(all, c.name)
	}
	return all
}

// choose finds contenders by name; all, if there is none.
func choose(only []string) ([]contender, error) {
	all := contenders()
	for _, name := range only {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("no contender %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	if len(only) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(c contender) bool { return !slices.Contains(only, c.name) }), nil
}

// absent says why a contender cannot be run, if it cannot.
func (c *contender) absent(bin string) error {
	if _, err := os.Stat(filepath.Join(bin, c.needs)); err != nil {
		return fmt.Errorf("not run, since there is no bin/%s here (%s)", c.needs, c.built)
	}
	return nil
}
