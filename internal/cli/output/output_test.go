package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// A patch that is nested thousands of levels deep is not indented.
func TestEncodeDeepValues(t *testing.T) {
	deep := func(levels int) any {
		return map[string]any{"patch": json.RawMessage(strings.Repeat(`{"a\"[{":[`, levels) + strings.Repeat("]}", levels))}
	}
	for levels, lines := range map[int]int{1: 5, 49: 197, 4000: 1} {
		for _, format := range []string{AsJSON, AsYAML} {
			var out bytes.Buffer
			must.Succeed(t, Encode(&out, format, deep(levels)))
			if got := strings.Count(out.String(), "\n"); format == AsJSON && got != lines || out.Len() > 100_000 {
				t.Errorf("%d levels: %d lines, %d bytes of %s", levels, got, out.Len(), format)
			}
			var back map[string]any
			must.Succeed(t, yaml.Unmarshal(out.Bytes(), &back))
		}
	}
}

// YAML has a line between documents, and none before the first.
func TestDocuments(t *testing.T) {
	for format, want := range map[string]string{AsYAML: "a: 1\n---\nb: 2\n", AsJSON: "{\n  \"a\": 1\n}\n{\n  \"b\": 2\n}\n"} {
		var out bytes.Buffer
		write := documents(format)
		for _, value := range []map[string]int{{"a": 1}, {"b": 2}} {
			must.Succeed(t, write(&out, value))
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", format, &out, want)
		}
	}
}

// Fault U12: states and errors have colours where they are wanted, and columns stay where
// they are without.
func TestTablesInColor(t *testing.T) {
	rows := []Row{
		{Key: "a", Cells: []string{"True", "True", "1", ""}},
		{Key: "b", Cells: []string{"long-name", "False (HookFailing)", "12", "b: no\x1b[31m"}},
		{Key: "c", Cells: []string{"└─ and 1 more"}},
	}
	head := []string{"NAME", "READY", "OBJECTS", "LAST ERROR"}
	var with, without, bare bytes.Buffer
	for out, t1 := range map[*bytes.Buffer]*Table{&with: {Headers: head, Color: true}, &without: {Headers: head}, &bare: {Headers: head, noHeaders: true}} {
		must.Succeed(t, t1.Write(out, rows))
	}
	for _, want := range []string{"True        \x1b[32mTrue\x1b[0m ", "\x1b[31mFalse (HookFailing)\x1b[0m   12 ", "\x1b[31mb: no\\u001b[31m\x1b[0m\n"} {
		if !strings.Contains(with.String(), want) {
			t.Errorf("%q lacks %q", with.String(), want)
		}
	}
	removed := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(with.String())
	if removed != without.String() || strings.Contains(without.String(), "\x1b") {
		t.Errorf("in colour:\n%s\nwithout:\n%s", removed, without.String())
	}
	if headings, _, _ := strings.Cut(with.String(), "\n"); strings.Contains(headings, "\x1b") {
		t.Errorf("headings in colour: %q", headings)
	}
	if strings.Contains(bare.String(), "NAME") || !strings.Contains(bare.String(), "long-name") {
		t.Errorf("without headings: %s", bare.String())
	}
}

func TestControlCharactersAreEscaped(t *testing.T) {
	hostile := "a\x1b[2J\u009b31m\u202e\nb\tc\x7f"
	var tableText, yamlText, jsonText bytes.Buffer
	rows := []Row{{Cells: []string{hostile}, Key: "a"}}
	must.Succeed(t, (&Table{Headers: []string{"NAME"}}).Write(&tableText, rows))
	must.Succeed(t, Encode(&yamlText, AsYAML, map[string]string{"name": hostile}))
	must.Succeed(t, Encode(&jsonText, AsJSON, map[string]string{"name": hostile}))
	for _, text := range []string{tableText.String(), yamlText.String(), jsonText.String(), Clean(hostile)} {
		if strings.ContainsAny(text, "\x1b\u009b\u202e\x7f") {
			t.Errorf("%q", text)
		}
	}
	var read map[string]string
	if err := json.Unmarshal(jsonText.Bytes(), &read); err != nil || read["name"] != hostile {
		t.Errorf("JSON says %q, %v", read["name"], err)
	}
}

// Fault U12: an error that is longer than the line of a terminal wrapped, and tore the table.
func TestTablesFitTerminal(t *testing.T) {
	rows := []Row{{Key: "a", Cells: []string{"s-500", "Failing", "sync hook: POST http://lab.lab/sync: returned 500"}}, {Key: "b", Cells: []string{"ö", "Synced", ""}}}
	for width, want := range map[int]string{
		0:  "NAME    STATE     ERROR\ns-500   Failing   sync hook: POST http://lab.lab/sync: returned 500\nö       Synced    \n",
		48: "NAME    STATE     ERROR\ns-500   Failing   sync hook: POST http://lab.la…\nö       Synced    \n",
		20: "NAME    STATE     ERROR\ns-500   Failing   sync hook: POST htt…\nö       Synced    \n",
	} {
		var out bytes.Buffer
		must.Succeed(t, (&Table{Headers: []string{"NAME", "STATE", "ERROR"}, width: width}).Write(&out, rows))
		if got := strings.ReplaceAll(out.String(), "Synced\n", "Synced    \n"); got != want {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
}

func TestTablesWriteChangedRows(t *testing.T) {
	var out bytes.Buffer
	watched := &Table{Headers: []string{"NAME", "STATE"}}
	for _, rows := range [][]Row{
		{{Key: "a", Version: "Synced", Cells: []string{"a", "Synced"}}, {Key: "b", Version: "Synced", Cells: []string{"b", "Synced"}}},
		{{Key: "a", Version: "Synced", Cells: []string{"a", "Synced"}}, {Key: "b", Version: "Failing", Cells: []string{"b", "Failing"}}},
	} {
		must.Succeed(t, watched.Write(&out, rows))
	}
	want := "NAME   STATE\na      Synced\nb      Synced\nb   Failing\n"
	if out.String() != want {
		t.Errorf("written:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 300 * time.Millisecond: "300ms", 90 * time.Second: "90s", 5 * time.Minute: "5m", 3 * time.Hour: "3h", 72 * time.Hour: "3d",
	} {
		if got := RoundDuration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	if got := In(clitest.Noon().Add(200*time.Millisecond), clitest.Noon()); got != "in 1s" {
		t.Errorf("%q, want in 1s", got)
	}
}
