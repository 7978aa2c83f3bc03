package render

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// readFormer reads a former output; "" for none.
func readFormer(file string) ([]map[string]any, error) {
	if file == "" {
		return nil, nil
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--diff: %w", err)
	}
	defer in.Close()
	all, err := manifest.ReadFrom(file, in)
	if err != nil {
		return nil, fmt.Errorf("--diff: %w", err)
	}
	return lists.Map(all, func(d manifest.Document) map[string]any { return d.Object.Object }), nil
}

// compare prints the differences of each object, and sets the exit code.
func (f *renderFlags) compare(p *command.Invocation, former, now []map[string]any) error {
	p.Code = command.OK
	was, err := byObject(former)
	if err != nil {
		return err
	}
	is, err := byObject(now)
	if err != nil {
		return err
	}
	paint := func(style output.Style, text string) string {
		if !f.WantsColor(p.Stdout) {
			return text
		}
		return style.Apply(text)
	}
	for _, name := range lists.Keys(was, is) {
		if was[name] == is[name] {
			continue
		}
		p.Code = command.Failure
		fmt.Fprintln(p.Stdout, paint(output.Bold, output.Clean(name)))
		for line := range strings.Lines(diff.Texts(was[name], is[name]).Signed()) {
			fmt.Fprintln(p.Stdout, "  "+paint(output.DiffStyle(line), strings.TrimSuffix(line, "\n")))
		}
	}
	return nil
}

// byObject returns documents as YAML by the names of their objects. Two controllers may make documents of one object.
func byObject(documents []map[string]any) (map[string]string, error) {
	all := map[string]string{}
	for _, each := range documents {
		var text strings.Builder
		if err := output.Encode(&text, output.AsYAML, each); err != nil {
			return nil, err
		}
		name := manifest.RefOf(&unstructured.Unstructured{Object: each}).String()
		if all[name] != "" {
			all[name] += "---\n"
		}
		all[name] += text.String()
	}
	return all, nil
}
