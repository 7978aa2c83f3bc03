package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"text/template"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"

	"github.com/setpoint-dev/setpoint/internal/diff"
)

// templateLanguage is a way to format the JSON of a command.
type templateLanguage struct {
	// set parses a template, example is one.
	set     func(f *Format, text string) error
	example string
}

// languages returns the template languages by name. They are those of kubectl.
func (f *Format) languages() map[string]templateLanguage {
	all := map[string]templateLanguage{
		"jsonpath":         {setJSONPath, "'{.items[*].name}'"},
		"jsonpath-file":    {fromFile(setJSONPath), "FILE"},
		"go-template":      {setGoTemplate, "'{{range .items}}{{.name}}{{end}}'"},
		"go-template-file": {fromFile(setGoTemplate), "FILE"},
	}
	if f.allows(AsName) {
		all[asCustomColumns] = templateLanguage{setColumns, "NAME:.name,STATE:.state"}
		all[asCustomColumns+"-file"] = templateLanguage{fromFile(setColumnLines), "FILE"}
	}
	return all
}

// fromFile reads the template from a file.
func fromFile(set func(*Format, string) error) func(*Format, string) error {
	return func(f *Format, file string) error {
		text, err := os.ReadFile(file) //nolint:gosec // The user names a file of their own.
		if err != nil {
			return err
		}
		return set(f, string(text))
	}
}

func setJSONPath(f *Format, text string) error {
	path, err := parseJSONPath(text)
	if err != nil {
		return err
	}
	f.print = printWith(path.Execute)
	return nil
}

func setGoTemplate(f *Format, text string) error {
	parsed, err := template.New("output").Parse(text)
	if err != nil {
		return err
	}
	f.print = printWith(parsed.Execute)
	return nil
}

// parseJSONPath parses a JSONPath template. Missing fields are empty.
func parseJSONPath(text string) (*jsonpath.JSONPath, error) {
	path := jsonpath.New("output").AllowMissingKeys(true)
	err := path.Parse(text)
	return path, err
}

// printWith returns a function that executes a template for the JSON of a value.
func printWith(execute func(io.Writer, any) error) printFunc {
	return func(out io.Writer, value any) error {
		decoded, err := jsonValue(value)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := execute(&text, decoded); err != nil {
			return fmt.Errorf("execute the template of --output: %w", err)
		}
		_, err = io.WriteString(out, diff.EscapeInvisible(text.String()))
		return err
	}
}

// jsonValue returns the JSON of a value as maps and lists.
func jsonValue(value any) (decoded any, err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	err = utiljson.Unmarshal(text, &decoded)
	return decoded, err
}

// customColumn is a column of -o custom-columns.
type customColumn struct {
	header string
	path   *jsonpath.JSONPath
}

// setColumns parses HEADER:PATH,HEADER:PATH.
func setColumns(f *Format, text string) error {
	var headers, paths []string
	for part := range strings.SplitSeq(text, ",") {
		header, path, split := strings.Cut(part, ":")
		if !split {
			return fmt.Errorf("%q is not HEADER:PATH, such as NAME:.name", part)
		}
		headers, paths = append(headers, header), append(paths, path)
	}
	return f.addColumns(headers, paths)
}

// setColumnLines parses a line of headers and a line of paths.
func setColumnLines(f *Format, text string) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2 {
		return fmt.Errorf("want a line of headers and a line of paths, not %s", Plural(len(lines), "line", "lines"))
	}
	headers, paths := strings.Fields(lines[0]), strings.Fields(lines[1])
	if len(headers) != len(paths) {
		return fmt.Errorf("%s, but %s", Plural(len(headers), "header", "headers"), Plural(len(paths), "path", "paths"))
	}
	return f.addColumns(headers, paths)
}

func (f *Format) addColumns(headers, paths []string) error {
	for i, text := range paths {
		// As for kubectl, {.name}, {name}, .name and name are the same.
		inner := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"), ".")
		path, err := parseJSONPath("{." + inner + "}")
		if err != nil || inner == "" {
			return fmt.Errorf("%q is not a path, such as .name: %w", text, err)
		}
		f.columns = append(f.columns, customColumn{headers[i], path})
	}
	f.Value = asCustomColumns
	return nil
}

// customRow returns the custom columns of a row.
func (f *Format) customRow(r Row) (Row, error) {
	decoded, err := jsonValue(r.Value)
	if err != nil {
		return r, err
	}
	r.Headers, r.Cells = nil, nil
	for _, column := range f.columns {
		cell, err := column.cell(decoded)
		if err != nil {
			return r, fmt.Errorf("column %s of --output: %w", column.header, err)
		}
		r.Headers, r.Cells = append(r.Headers, column.header), append(r.Cells, cell)
	}
	return r, nil
}

// cell returns the values of a column, separated by commas, or <none>.
func (c *customColumn) cell(of any) (string, error) {
	results, err := c.path.FindResults(of)
	if err != nil {
		return "", err
	}
	var values []string
	for _, found := range results {
		for _, value := range found {
			if value.Kind() == reflect.Interface && value.IsNil() {
				continue
			}
			values = append(values, fmt.Sprint(value.Interface()))
		}
	}
	if len(values) == 0 {
		return "<none>", nil
	}
	return strings.Join(values, ","), nil
}
