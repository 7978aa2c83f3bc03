package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/tabwriter"
	"text/template"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// printer prints an object or a list in a format.
type printer func(w io.Writer, object runtime.Unstructured, argument string) error

var printers = map[string]printer{
	"name":             printName,
	"json":             printJSON,
	"yaml":             printYAML,
	"jsonpath":         printJSONPath,
	"go-template":      printTemplate,
	"go-template-file": printTemplate,
}

// knownFormat says whether this process prints a format as kubectl does.
func knownFormat(format string) bool {
	name, _, _ := strings.Cut(format, "=")
	return getCommand{format: format}.human() || printers[name] != nil
}

// human says that a command prints a table for people.
func (c getCommand) human() bool { return c.format == "" || c.format == "wide" }

// printObjects prints a single object as itself, and all else as one list.
func (c getCommand) printObjects(results []result, implied bool) (output, error) {
	var out output
	name, argument, _ := strings.Cut(c.format, "=")
	if name == "go-template-file" {
		text, err := os.ReadFile(filepath.Join(c.folder, argument))
		if err != nil {
			return out, err
		}
		argument = string(text)
	}
	if implied && len(results) == 1 {
		err := printers[name](&out.stdout, results[0].object.(runtime.Unstructured), argument)
		return out, err
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""},
	}}
	for _, result := range results {
		switch object := result.object.(type) {
		case *unstructured.UnstructuredList:
			list.Items = append(list.Items, object.Items...)
		case *unstructured.Unstructured:
			list.Items = append(list.Items, *object)
		}
	}
	err := printers[name](&out.stdout, list, argument)
	return out, err
}

func printName(w io.Writer, object runtime.Unstructured, _ string) error {
	return eachItem(object, func(o *unstructured.Unstructured) error {
		kind := o.GroupVersionKind().GroupKind()
		_, err := fmt.Fprintf(w, "%s/%s\n", strings.ToLower(kind.String()), o.GetName())
		return err
	})
}

func printJSON(w io.Writer, object runtime.Unstructured, _ string) error {
	if err := eachItem(object, omitManagedFields); err != nil {
		return err
	}
	text, err := json.MarshalIndent(object, "", "    ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

func printYAML(w io.Writer, object runtime.Unstructured, _ string) error {
	if err := eachItem(object, omitManagedFields); err != nil {
		return err
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func eachItem(object runtime.Unstructured, do func(*unstructured.Unstructured) error) error {
	if o, single := object.(*unstructured.Unstructured); single {
		return do(o)
	}
	return meta.EachListItem(object, func(item runtime.Object) error { return do(item.(*unstructured.Unstructured)) })
}

func omitManagedFields(o *unstructured.Unstructured) error {
	o.SetManagedFields(nil)
	return nil
}

func printJSONPath(w io.Writer, object runtime.Unstructured, path string) error {
	parsed := jsonpath.New("out").AllowMissingKeys(true)
	if err := parsed.Parse(path); err != nil {
		return err
	}
	return parsed.Execute(w, object.UnstructuredContent())
}

func printTemplate(w io.Writer, object runtime.Unstructured, text string) error {
	parsed, err := template.New("output").Funcs(template.FuncMap{"base64decode": base64decode}).Parse(text)
	if err != nil {
		return err
	}
	plain, err := json.Marshal(object)
	if err != nil {
		return err
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(plain, &content); err != nil { // whole numbers stay whole
		return err
	}
	return parsed.Execute(w, content)
}

func base64decode(text string) (string, error) {
	plain, err := base64.StdEncoding.DecodeString(text)
	return string(plain), err
}

// printTables prints tables of one kind, as the server made them.
func (c getCommand) printTables(namespace string, results []result) (output, error) {
	var out output
	var rows int
	var columns []metav1.TableColumnDefinition
	w := tabwriter.NewWriter(&out.stdout, 6, 4, 3, ' ', 0)
	for _, result := range results {
		table, err := tableOf(result)
		if err != nil {
			return output{}, err
		}
		if result.target.mapping.Resource != results[0].target.mapping.Resource ||
			columns != nil && !reflect.DeepEqual(columns, table.ColumnDefinitions) {
			return output{}, errOnlyKubectl // which prints one table below the other
		}
		columns = table.ColumnDefinitions
		spaces := c.allNamespaces && result.target.namespaced()
		if rows == 0 && len(table.Rows) > 0 && !c.noHeaders {
			c.printHeader(w, columns, spaces)
		}
		for _, row := range table.Rows {
			if err := c.printRow(w, columns, row, spaces); err != nil {
				return output{}, err
			}
			rows++
		}
	}
	switch {
	case rows > 0 || c.ignoreNotFound:
		err := w.Flush()
		return out, err
	case results[0].target.namespaced() && !c.allNamespaces:
		fmt.Fprintf(&out.stderr, "No resources found in %s namespace.\n", namespace)
	default:
		fmt.Fprintln(&out.stderr, "No resources found")
	}
	return out, nil
}

func (t target) namespaced() bool { return t.mapping.Scope.Name() == meta.RESTScopeNameNamespace }

func tableOf(r result) (metav1.Table, error) {
	var table metav1.Table
	object, single := r.object.(*unstructured.Unstructured)
	if !single || object.GetKind() != "Table" {
		return table, errOnlyKubectl
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &table)
	return table, err
}

func (c getCommand) printHeader(w io.Writer, columns []metav1.TableColumnDefinition, spaces bool) {
	var names []string
	if spaces {
		names = append(names, "NAMESPACE")
	}
	for _, column := range columns {
		if c.shows(column) {
			names = append(names, strings.ToUpper(column.Name))
		}
	}
	fmt.Fprintln(w, strings.Join(names, "\t"))
}

func (c getCommand) shows(column metav1.TableColumnDefinition) bool {
	return column.Priority == 0 || c.format == "wide"
}

func (c getCommand) printRow(w io.Writer, columns []metav1.TableColumnDefinition, row metav1.TableRow, spaces bool) error {
	var cells []string
	if spaces {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
			return err
		}
		cells = append(cells, object.Namespace)
	}
	for i, cell := range row.Cells {
		if i < len(columns) && c.shows(columns[i]) {
			cells = append(cells, cellText(cell))
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(cells, "\t"))
	return err
}

// cellText is what kubectl makes of a cell: its first line, without what a terminal
// would take for a command.
func cellText(cell any) string {
	if cell == nil {
		return ""
	}
	text, isText := cell.(string)
	if !isText {
		text = fmt.Sprint(cell)
	} else if end := strings.IndexAny(text, "\f\n\r"); end >= 0 {
		text = text[:end] + "..."
	}
	return strings.NewReplacer("\x1b", "^[", "\r", "\\r").Replace(text)
}
