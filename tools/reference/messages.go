package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const messagesFile = "internal/typegen/wire.yaml"

// writeMessages lists the requests and responses of hooks, with their fields, in the order of wire.yaml.
func writeMessages(root string, parts map[string]string) error {
	text, err := os.ReadFile(filepath.Join(root, messagesFile))
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("read %s: %w", messagesFile, err)
	}
	var page strings.Builder
	for name, typ := range members(document.Content[0]) {
		writeMessage(&page, name, typ)
	}
	parts["messages"] = page.String()
	return nil
}

func writeMessage(page *strings.Builder, name string, typ *yaml.Node) {
	fmt.Fprintf(page, "## %s\n\n", name)
	if text := member(typ, "description"); text != nil {
		fmt.Fprintf(page, "%s\n\n", text.Value)
	}
	var required []string
	if list := member(typ, "required"); list != nil {
		for _, field := range list.Content {
			required = append(required, field.Value)
		}
	}
	page.WriteString("| field | type | |\n|---|---|---|\n")
	for field, schema := range members(member(typ, "properties")) {
		text := ""
		if node := member(schema, "description"); node != nil {
			text = node.Value
		}
		if slices.Contains(required, field) && strings.HasSuffix(name, "Response") {
			text = strings.TrimSpace("Required. " + text)
		}
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", field, messageType(schema), cell(text))
	}
	page.WriteString("\n")
}

// messageType is the type of a field for readers: a link if it is one of the page.
func messageType(schema *yaml.Node) string {
	if ref := member(schema, "$ref"); ref != nil {
		name := strings.TrimPrefix(ref.Value, "#/")
		if i := strings.LastIndex(name, "."); i >= 0 {
			return name[i+1:] // of Kubernetes
		}
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	if values := member(schema, "enum"); values != nil {
		var texts []string
		for _, value := range values.Content {
			texts = append(texts, "`"+value.Value+"`")
		}
		return strings.Join(texts, ", ")
	}
	kind := "any value"
	if node := cmp.Or(member(schema, "type"), member(schema, "x-type")); node != nil {
		kind = node.Value
	}
	switch kind {
	case "array":
		return "list of " + strings.TrimPrefix(messageType(member(schema, "items")), "list of ")
	case "children", "related", "owned":
		return "objects by kind and name"
	case "desired", "apply":
		return "objects"
	case "handler", "reason", "operation":
		return "string"
	case "parent", "previousState", "oldObject", "reviewed", "status", "statusPatch", "patch", "reviewPatch":
		return "object"
	}
	return kind
}

// members are the members of a mapping, in their order.
func members(mapping *yaml.Node) func(yield func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		for i := 0; mapping != nil && i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i].Value, mapping.Content[i+1]) {
				return
			}
		}
	}
}

// member is a member of a mapping, or nil.
func member(mapping *yaml.Node, name string) *yaml.Node {
	for key, value := range members(mapping) {
		if key == name {
			return value
		}
	}
	return nil
}
