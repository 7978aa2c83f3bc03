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

// readFormer reads a former output; without a file, nothing.
func readFormer(file string) (map[string]string, error) {
	if file == "" {
		return map[string]string{}, nil
	}
	text, err := os.ReadFile(file)
	var all []manifest.Document
	if err == nil {
		all, err = manifest.Parse(file, text)
	}
	if err != nil {
		return nil, fmt.Errorf("--diff: %w", err)
	}
	return byObject(lists.Map(all, func(d manifest.Document) map[string]any { return d.Object.Object }))
}

// compare prints the differences of each object, and sets the exit code.
func (f *renderFlags) compare(p *command.Invocation, was map[string]string, documents []map[string]any) error {
	is, err := byObject(documents)
	if err != nil {
		return err
	}
	p.Code = command.OK
	for _, name := range lists.Keys(was, is) {
		if was[name] != is[name] {
			p.Code = command.Failure
			text := diff.Texts(was[name], is[name]).Signed()
			fmt.Fprintf(p.Stdout, "%s\n%s", output.Clean(name), output.IndentDiff(text, "  ", f.WantsColor(p.Stdout)))
		}
	}
	return nil
}

// byObject returns documents as YAML by the names of their objects. Two controllers may make documents of one object.
func byObject(documents []map[string]any) (map[string]string, error) {
	all := map[string]string{}
	for _, each := range documents {
		var text strings.Builder
		name := manifest.RefOf(&unstructured.Unstructured{Object: each}).String()
		if all[name] != "" {
			text.WriteString("---\n")
		}
		if err := output.Encode(&text, output.AsYAML, each); err != nil {
			return nil, err
		}
		all[name] += text.String()
	}
	return all, nil
}
