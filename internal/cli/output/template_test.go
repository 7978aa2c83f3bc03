package output

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// printed is what the rows of two objects print with --output.
func printed(t *testing.T, format string) string {
	t.Helper()
	f := NewPrintFlags(AsTable, AsWide, AsName, AsJSON, AsYAML)
	if err := f.Output.Set(format); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	var out bytes.Buffer
	var rows []Row
	states := []inspect.ObjectState{{Ref: clitest.Team(), State: inspect.StateFailing, Error: "no\x1b[31m money", Children: 2}, {Ref: clitest.Pod("a"), State: inspect.StateSynced}}
	for _, state := range states {
		headers, cells := f.Columns(Column{Header: "NAME", Cell: state.Name}, Column{Header: "STATE", Cell: string(state.State)})
		rows = append(rows, Row{Headers: headers, Cells: cells, Key: state.Name, Value: state, Name: strings.ToLower(state.Kind.Kind) + "/" + state.Name})
	}
	if err := f.Show(&out, f.Table(&out), rows, states, false); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return out.String()
}

func TestOutputFormats(t *testing.T) {
	folder := t.TempDir()
	files := map[string]string{"path": "{.items[0].name}", "template": "{{len .items}}", "columns": "NAME  STATE\n.name {.state}\n"}
	for name, text := range files {
		must.Succeed(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	for format, want := range map[string]string{
		"name": "team/red\npod/a\n",
		`jsonpath={range .items[*]}{.name}{"\t"}{.state}{"\n"}{end}`:               "red\tFailing\na\tSynced\n",
		`jsonpath={.items[?(@.state=="Failing")].name}`:                            "red",
		"jsonpath={.items[*].error}":                                               `no\u001b[31m money`,
		"jsonpath={.items[*].children}":                                            "2 0",
		"jsonpath={.nothing}":                                                      "",
		"jsonpath-file=" + folder + "/path":                                        "red",
		`go-template={{range .items}}{{.name}} {{end}}`:                            "red a ",
		`go-template={{range .items}}{{if gt .children 1}}{{.name}}{{end}}{{end}}`: "red",
		"go-template-file=" + folder + "/template":                                 "2",
		"custom-columns=NAME:.name,CHILDREN:{.children},WHY:error,NO:.nothing":     "NAME   CHILDREN   WHY                  NO\nred    2          no\\u001b[31m money   <none>\na      0          <none>               <none>\n",
		"custom-columns-file=" + folder + "/columns":                               "NAME   STATE\nred    Failing\na      Synced\n",
	} {
		if got := printed(t, format); got != want {
			t.Errorf("%s prints %q, want %q", format, got, want)
		}
	}
}

func TestWrongOutputFormats(t *testing.T) {
	lines := filepath.Join(t.TempDir(), "columns")
	must.Succeed(t, os.WriteFile(lines, []byte("NAME STATE\n.name\n"), 0o600))
	for format, want := range map[string]string{
		"csv":                            "must be one of table, wide, name, json, yaml, custom-columns=,",
		"json=x":                         "must be one of",
		"jsonpath":                       "jsonpath needs a template: jsonpath='{.items[*].name}'",
		"jsonpath=":                      "needs a template",
		"jsonpath={.items[":              "unterminated array",
		"jsonpath-file=/none/such":       "no such file",
		"go-template={{range}}":          "missing value for range",
		"custom-columns=NAME":            `"NAME" is not HEADER:PATH`,
		"custom-columns=NAME:":           "is not a path",
		"custom-columns=NAME:.a[":        "is not a path",
		"custom-columns-file=" + lines:   "2 headers, but 1 path",
		"custom-columns-file=/dev/null":  "want a line of headers and a line of paths, not 1 line",
		"custom-columns-file=/none/such": "no such file",
	} {
		f := NewPrintFlags(AsTable, AsWide, AsName, AsJSON, AsYAML)
		if err := f.Output.Set(format); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", format, err, want)
		}
	}
	f := NewPrintFlags(AsText, AsJSON)
	if err := f.Output.Set("custom-columns=NAME:.name"); err == nil {
		t.Error("custom columns of a command without rows")
	}
}

func TestColor(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var out bytes.Buffer
	for value, want := range map[string]bool{"auto": false, "always": true, "never": false} {
		f := NewPrintFlags(AsTable)
		if err := f.color.Set(value); err != nil || f.WantsColor(&out) != want {
			t.Errorf("--color=%s: %v, %v", value, f.WantsColor(&out), err)
		}
	}
}
