package output

import (
	"bytes"
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
	must.Succeed(t, f.Output.Set(format))
	var out bytes.Buffer
	var rows []Row
	states := []inspect.ObjectState{{Ref: clitest.Team(), State: inspect.StateFailing, Error: "no\x1b[31m money", Children: 2}, {Ref: clitest.Pod("a"), State: inspect.StateSynced}}
	for _, state := range states {
		headers, cells := f.Columns(Column{Header: "NAME", Cell: state.Name}, Column{Header: "STATE", Cell: string(state.State)})
		rows = append(rows, Row{Headers: headers, Cells: cells, Key: state.Name, Value: state, Name: strings.ToLower(state.Kind.Kind) + "/" + state.Name})
	}
	must.Succeed(t, f.Show(&out, f.Table(&out), rows, states, false))
	return out.String()
}

func TestOutputFormats(t *testing.T) {
	for format, want := range map[string]string{
		"name": "team/red\npod/a\n",
		`jsonpath={range .items[*]}{.name}{"\t"}{.state}{"\n"}{end}`: "red\tFailing\na\tSynced\n",
		`jsonpath={.items[?(@.state=="Failing")].name}`:              "red",
		"jsonpath={.items[*].error}":                                 `no\u001b[31m money`,
		"jsonpath={.items[*].children}":                              "2 0",
		"jsonpath={.nothing}":                                        "",
	} {
		if got := printed(t, format); got != want {
			t.Errorf("%s prints %q, want %q", format, got, want)
		}
	}
}

func TestWrongOutputFormats(t *testing.T) {
	for format, want := range map[string]string{
		"csv":                 "must be one of table, wide, name, json, yaml, jsonpath=",
		"json=x":              "must be one of",
		"jsonpath":            "jsonpath needs a template: jsonpath='{.items[*].name}'",
		"jsonpath=":           "needs a template",
		"jsonpath={.items[":   "unterminated array",
		"custom-columns=NAME": "must be one of",
	} {
		f := NewPrintFlags(AsTable, AsWide, AsName, AsJSON, AsYAML)
		if err := f.Output.Set(format); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", format, err, want)
		}
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
