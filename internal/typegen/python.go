package typegen

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const pythonHead = `# %s
"""Types of objects, and of requests and responses of hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Literal, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired
`

// Python returns the declarations as a module of TypedDicts. It imports the standard library only,
// and runs with Python 3.9.
func (m *Module) Python() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, pythonHead, Header)
	for _, o := range m.objects {
		out.WriteString("\n\n")
		switch {
		case o.open:
			// A TypedDict cannot have other fields.
			fmt.Fprintf(&out, "%s%s = Dict[str, Any]\n", pyComment("", o.doc), o.name)
		case slices.ContainsFunc(o.fields, func(f field) bool { return !isPythonName(f.name) }):
			pyCall(&out, o)
		default:
			pyClass(&out, o)
		}
	}
	return out.Bytes()
}

func pyClass(out *bytes.Buffer, o *Object) {
	fmt.Fprintf(out, "class %s(TypedDict):\n%s", o.name, docString(o.doc))
	for _, f := range o.fields {
		fmt.Fprintf(out, "    %s: %s\n%s", f.name, pyField(&f), docString(f.doc))
	}
	if len(o.fields) == 0 {
		out.WriteString("    pass\n")
	}
}

// pyCall writes an object with fields that are no names in Python.
func pyCall(out *bytes.Buffer, o *Object) {
	const indent = "        "
	fmt.Fprintf(out, "%s%s = TypedDict(\n    %q,\n    {\n", pyComment("", o.doc), o.name, o.name)
	for _, f := range o.fields {
		fmt.Fprintf(out, "%s%s%s: %s,\n", pyComment(indent, f.doc), indent, jsonText(f.name), jsonText(pyField(&f)))
	}
	out.WriteString("    },\n)\n")
}

func pyField(f *field) string {
	if f.required {
		return pyType(f.typ)
	}
	return "NotRequired[" + pyType(f.typ) + "]"
}

func pyType(t *Type) string {
	switch t.form {
	case listForm:
		return "List[" + pyType(t.of[0]) + "]"
	case mapForm:
		return "Dict[str, " + pyType(t.of[0]) + "]"
	case unionForm:
		return pyUnion(t.of)
	case literalForm:
		return pyUnion([]*Type{t})
	case objectForm:
		return t.object.name
	}
	return simple[t.form].python
}

// pyUnion writes literals together, then the other types.
func pyUnion(all []*Type) string {
	var literals, texts []string
	for _, t := range all {
		text, is := pyLiteral(t)
		switch {
		case is:
			literals = append(literals, text)
		case !slices.Contains(texts, text):
			texts = append(texts, text)
		}
	}
	if len(literals) > 0 {
		texts = slices.Insert(texts, 0, "Literal["+strings.Join(literals, ", ")+"]")
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "Union[" + strings.Join(texts, ", ") + "]"
}

// pyLiteral returns what stands in Literal, or else a type. There are no literals of fractions and lists. Strings of
// JSON are strings of Python.
func pyLiteral(t *Type) (text string, is bool) {
	if t.form != literalForm {
		return pyType(t), false
	}
	switch value := t.value.(type) {
	case string:
		return jsonText(value), true
	case bool:
		return camel(strconv.FormatBool(value)), true
	case float64:
		if value == float64(int64(value)) {
			return strconv.FormatInt(int64(value), 10), true
		}
		return "float", false
	}
	return "Any", false
}

var pythonName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

var pythonKeywords = strings.Fields(`False None True and as assert async await break class continue def del elif else
	except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)

// isPythonName reports whether a class can have a field of this name. Names with two underscores
// are changed within classes.
func isPythonName(name string) bool {
	return pythonName.MatchString(name) && !strings.HasPrefix(name, "__") && !slices.Contains(pythonKeywords, name)
}

// docString returns the documentation below a class or a field, where editors look for it.
func docString(text string) string {
	const indent = "    "
	text = strings.NewReplacer(`\`, `\\`, `"""`, `'''`).Replace(text)
	lines := wrap(text, maxLine-len(indent)-len(`"""`))
	switch {
	case len(lines) == 0:
		return ""
	case len(lines) == 1 && !strings.HasSuffix(text, `"`):
		return indent + `"""` + lines[0] + "\"\"\"\n"
	}
	return indent + `"""` + strings.Join(lines, "\n"+indent) + "\n" + indent + "\"\"\"\n"
}

func pyComment(indent, text string) string {
	var b strings.Builder
	for _, line := range wrap(text, maxLine-len(indent)-len("# ")) {
		b.WriteString(indent + "# " + line + "\n")
	}
	return b.String()
}
