package typegen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// TypeScript returns the declarations as a .d.ts file.
func (m *Module) TypeScript() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "// %s\n", Header)
	for _, o := range m.objects {
		out.WriteByte('\n')
		out.WriteString(tsComment("", o.doc))
		fmt.Fprintf(&out, "export interface %s {\n", o.name)
		for _, f := range o.fields {
			mark := "?"
			if f.required {
				mark = ""
			}
			fmt.Fprintf(&out, "%s  %s%s: %s;\n", tsComment("  ", f.doc), tsName(f.name), mark, tsType(f.typ))
		}
		if o.open {
			out.WriteString("  [field: string]: any;\n")
		}
		out.WriteString("}\n")
	}
	return out.Bytes()
}

func tsType(t *Type) string {
	switch t.form {
	case listForm:
		if t.of[0].form == unionForm {
			return "(" + tsType(t.of[0]) + ")[]"
		}
		return tsType(t.of[0]) + "[]"
	case mapForm:
		return "{ [key: string]: " + tsType(t.of[0]) + " }"
	case unionForm:
		texts := lists.Map(t.of, tsType)
		return strings.Join(texts, " | ")
	case literalForm:
		return jsonText(t.value)
	case objectForm:
		return t.object.name
	}
	return simple[t.form].typeScript
}

// jsonText returns a literal, which came from JSON and so has a JSON form.
func jsonText(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "null"
	}
	return strings.TrimSpace(out.String())
}

var tsIdentifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

func tsName(name string) string {
	if tsIdentifier.MatchString(name) {
		return name
	}
	return jsonText(name)
}

func tsComment(indent, text string) string {
	lines := wrap(strings.ReplaceAll(text, "*/", "*\u200b/"), maxLine-len(indent)-len(" * "))
	switch {
	case len(lines) == 0:
		return ""
	case len(lines) == 1:
		return indent + "/** " + lines[0] + " */\n"
	}
	return indent + "/**\n" + indent + " * " + strings.Join(lines, "\n"+indent+" * ") + "\n" + indent + " */\n"
}

// maxLine is the length of a line of comments.
const maxLine = 110

// wrap breaks text into lines at spaces. Its own line breaks stay.
func wrap(text string, width int) (lines []string) {
	for paragraph := range strings.Lines(text) {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && len(line)+1+len(word) > width {
				lines = append(lines, line)
				line = ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
