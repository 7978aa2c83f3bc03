package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Replacement is a new value of a field at the top of a document.
type Replacement struct {
	Document Document
	Field    string
	Value    any
}

// Rewrite replaces fields of the documents of a file in place. It keeps all other lines, and the comments and
// forms of what stays equal within the field.
func Rewrite(all []Replacement) error {
	if len(all) == 0 {
		return nil
	}
	file := all[0].Document.File
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(text), "\n")
	// From the end, so that the lines before stay where they are.
	slices.SortFunc(all, func(a, b Replacement) int { return cmp.Compare(b.Document.Line, a.Document.Line) })
	for _, each := range all {
		if lines, err = each.apply(lines); err != nil {
			return fmt.Errorf("%s: %s: %w", each.Document, each.Field, err)
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "")), info.Mode().Perm()) //nolint:gosec // The user names files of their own.
}

// apply returns the lines of the file with the new value.
func (r Replacement) apply(lines []string) ([]string, error) {
	d := r.Document
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err != nil {
		return nil, err
	}
	if d.inList || filepath.Ext(d.File) == ".json" || root.Content[0].Style&yaml.FlowStyle != 0 {
		return nil, errors.New("cannot be rewritten in JSON or in an item of a List; write it as a YAML document of its own")
	}
	from, to, value := r.place(root.Content[0], lastLine(d.text))
	var wanted yaml.Node
	if err := wanted.Encode(r.Value); err != nil {
		return nil, err
	}
	if value != nil {
		merge(value, &wanted)
		wanted = *value
		wanted.Style &^= yaml.FlowStyle
	}
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: r.Field}
	err := encoder.Encode(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, &wanted}})
	ending := lineEnding(lines)
	if from > 1 && !strings.HasSuffix(lines[from-2], "\n") {
		lines[from-2] += ending
	}
	var written []string
	for line := range strings.Lines(out.String()) {
		written = append(written, strings.TrimRight(line, "\r\n")+ending) // A comment of the file keeps its carriage return.
	}
	return slices.Concat(lines[:from-1], written, lines[to-1:]), err
}

// lineEnding returns that of the first line of a file.
func lineEnding(lines []string) string {
	if strings.HasSuffix(lines[0], "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// lastLine returns the number of the last line that is no comment.
func lastLine(text []byte) int {
	lines := bytes.Split(text, []byte("\n"))
	for len(lines) > 0 {
		last := bytes.TrimSpace(lines[len(lines)-1])
		if len(last) > 0 && !bytes.HasPrefix(lines[len(lines)-1], []byte("#")) {
			break
		}
		lines = lines[:len(lines)-1]
	}
	return len(lines)
}

// place returns the lines of the field, the last one excluded, and its value. An absent field comes
// after the last line.
func (r Replacement) place(document *yaml.Node, last int) (from, to int, value *yaml.Node) {
	at := memberAt(document.Content, r.Field)
	if at < 0 {
		return last + 1, last + 1, nil
	}
	to = last + 1
	if at+2 < len(document.Content) {
		next := document.Content[at+2]
		to = next.Line - strings.Count(next.HeadComment, "\n")
		if next.HeadComment != "" {
			to--
		}
	}
	return document.Content[at].Line, to, document.Content[at+1]
}

// merge makes a node equal to another one. What is equal before keeps its comments and form.
func merge(node, wanted *yaml.Node) {
	switch {
	case node.Kind == yaml.MappingNode && wanted.Kind == yaml.MappingNode:
		node.Content = mergeMembers(node.Content, wanted.Content)
	case node.Kind == yaml.SequenceNode && wanted.Kind == yaml.SequenceNode:
		node.Content = mergeItems(node.Content, wanted.Content)
	case !equal(node, wanted):
		wanted.HeadComment, wanted.LineComment, wanted.FootComment = node.HeadComment, node.LineComment, node.FootComment
		*node = *wanted
	}
}

func equal(a, b *yaml.Node) bool {
	var left, right any
	if a.Decode(&left) != nil || b.Decode(&right) != nil {
		return false
	}
	return fmt.Sprint(left) == fmt.Sprint(right) && a.Kind == b.Kind && a.ShortTag() == b.ShortTag()
}

// mergeMembers keeps the order of members that stay; new ones come last.
func mergeMembers(members, wanted []*yaml.Node) []*yaml.Node {
	var all []*yaml.Node
	for i := 0; i+1 < len(members); i += 2 {
		if at := memberAt(wanted, members[i].Value); at >= 0 {
			merge(members[i+1], wanted[at+1])
			all = append(all, members[i], members[i+1])
		}
	}
	for i := 0; i+1 < len(wanted); i += 2 {
		if memberAt(members, wanted[i].Value) < 0 {
			all = append(all, wanted[i], wanted[i+1])
		}
	}
	return all
}

// mergeItems keeps items that are the same object, or at the same place in a list without objects.
func mergeItems(items, wanted []*yaml.Node) []*yaml.Node {
	var all []*yaml.Node
	used := map[*yaml.Node]bool{}
	for i, want := range wanted {
		at := slices.IndexFunc(items, func(item *yaml.Node) bool { return !used[item] && sameObject(item, want) })
		if at < 0 && i < len(items) && nameOf(want) == (objectName{}) && !used[items[i]] {
			at = i
		}
		if at < 0 {
			all = append(all, want)
			continue
		}
		used[items[at]] = true
		merge(items[at], want)
		all = append(all, items[at])
	}
	return all
}

// objectName is what identifies an object in a list.
type objectName struct{ kind, namespace, name string }

// sameObject reports whether two nodes are the same object. One may leave out its kind.
func sameObject(a, b *yaml.Node) bool {
	left, right := nameOf(a), nameOf(b)
	if left.kind == "" || right.kind == "" {
		left.kind, right.kind = "", ""
	}
	return left.name != "" && left == right
}

// nameOf returns the name of an object; the zero value for other nodes.
func nameOf(node *yaml.Node) objectName {
	var o struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if node.Decode(&o) != nil || o.Metadata.Name == "" {
		return objectName{}
	}
	return objectName{o.Kind, o.Metadata.Namespace, o.Metadata.Name}
}
