package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// located finds the field that an error of the API server or of an admission webhook names, such as
// spec.replicas or spec.handlers[0].inline.source:12:5, where 12 is a line of the field's text.
var (
	located = regexp.MustCompile(`\b((?:spec|data|metadata|request|expect|objects|edits|invariants|bounds|steps)(?:\.[\w-]+|\[\d+\])+)(?::(\d+):\d+)?`)
	step    = regexp.MustCompile(`\.?([\w-]+)|\[(\d+)\]`)
)

// Locate returns the document with the line of the field that an error names, as far as the text has it.
func (d Document) Locate(err error) Document {
	named := located.FindStringSubmatch(err.Error())
	var root yaml.Node
	if named == nil || d.inList || yaml.Unmarshal(d.text, &root) != nil || len(root.Content) == 0 {
		return d
	}
	at, line := root.Content[0], 0
	for _, part := range step.FindAllStringSubmatch(named[1], -1) {
		next, nextLine := child(at, part[1], part[2])
		if next == nil {
			break
		}
		at, line = next, nextLine
	}
	if line == 0 {
		return d
	}
	if within, err := strconv.Atoi(named[2]); err == nil && at.Kind == yaml.ScalarNode {
		line = at.Line + within
		if at.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			line-- // Its first line is that of the field.
		}
	}
	d.Line = line
	return d
}

// child returns the value of a key, or of an index, and the line where it begins.
func child(of *yaml.Node, key, index string) (*yaml.Node, int) {
	switch of.Kind {
	case yaml.MappingNode:
		if i := memberAt(of.Content, key); i >= 0 {
			return of.Content[i+1], of.Content[i].Line
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(index); err == nil && i < len(of.Content) {
			return of.Content[i], of.Content[i].Line
		}
	}
	return nil, 0
}

// Decode decodes the document. Unknown and duplicate fields are errors, which name the line and the field.
func (d Document) Decode(into any) error {
	text, err := d.Object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	problems := object.DecodeStrictly(text, into)
	for i, each := range problems {
		problems[i] = fmt.Errorf("%s: %s: %w", d.Locate(each), d.Object.GetName(), each)
	}
	return errors.Join(problems...)
}

func memberAt(members []*yaml.Node, name string) int {
	for i := 0; i+1 < len(members); i += 2 {
		if members[i].Value == name {
			return i
		}
	}
	return -1
}
