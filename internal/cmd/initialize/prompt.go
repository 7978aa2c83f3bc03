package initialize

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/scaffold"
)

// promptInit reads what the flags leave open. An empty line is the default in brackets.
func prompt(p *command.Invocation, c *cobra.Command, f *initFlags, name string) error {
	children := strings.Join(f.children, ",")
	in := bufio.NewReader(p.Stdin)
	for _, prompt := range []struct {
		flag, text, missing string
		value               *string
	}{
		{"language", "Language (" + strings.Join(scaffold.Languages(), ", ") + ")", f.language, &f.language},
		{"kind", "Kind", kindFromName(name), &f.kind},
		{"group", "API group", f.group, &f.group},
		{"children", "Kinds of children (" + strings.Join(scaffold.ChildKinds(), ", ") + ")", children, &children},
	} {
		ofCRD := f.fromCRD != "" && (prompt.flag == "kind" || prompt.flag == "group")
		if c.Flags().Changed(prompt.flag) || ofCRD {
			continue
		}
		fmt.Fprintf(p.Stdout, "%s [%s]: ", prompt.text, prompt.missing)
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		*prompt.value = cmp.Or(strings.TrimSpace(line), prompt.missing)
	}
	f.children = strings.FieldsFunc(children, func(r rune) bool { return r == ',' || r == ' ' })
	return nil
}

// printNext prints what was written and what to do with it.
func printNext(p *command.Invocation, o scaffold.Options, dir string, files map[string][]byte) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(p.Stdout, "wrote %s\n", filepath.Join(dir, name))
	}
	fmt.Fprint(p.Stdout, "\nnext:\n")
	if o.Language == "go" {
		fmt.Fprintf(p.Stdout, "  (cd %s && go mod tidy)\n", dir)
	}
	if files["cases.yaml"] != nil {
		fmt.Fprintf(p.Stdout, "  setpoint test %s\n", dir)
	}
	fmt.Fprintf(p.Stdout, "  setpoint dev %s\n  setpoint dev %s -- sh %s\n", dir, dir, filepath.Join(dir, "test.sh"))
}
