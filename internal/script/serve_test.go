package script

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// echoEngine has the functions of a map.
type echoEngine struct {
	loadError error
	functions map[string]func(c *Call) ([]byte, error)
}

func (e echoEngine) Load(Files) (Program, error) { return e, e.loadError }
func (e echoEngine) Functions() []string         { return []string{"sync"} }
func (e echoEngine) Call(c *Call) ([]byte, error) {
	return e.functions[c.Function](c)
}

// converse sends lines to a server and returns what it writes.
func converse(t *testing.T, engine Engine, lines ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	next := func() ([]byte, error) {
		if len(lines) == 0 {
			return nil, io.EOF
		}
		line := lines[0]
		lines = lines[1:]
		return []byte(line), nil
	}
	err := (&Server{Engines: map[string]Engine{"Test": engine}}).serve(next, &out)
	return out.String(), err
}

const load = `{"language":"Test","entry":"a","sources":{"a":""}}`

func TestProtocol(t *testing.T) {
	engine := echoEngine{functions: map[string]func(c *Call) ([]byte, error){
		"sync": func(c *Call) ([]byte, error) {
			c.Log("in sync")
			return fmt.Appendf(nil, `{"request":%s,"seed":%d,"year":%d}`, c.Request, c.Seed, c.Time.Year()), nil
		},
		"fail":   func(*Call) ([]byte, error) { return nil, &Error{File: "a.js", Line: 3, Column: 4, Message: "no"} },
		"broken": func(*Call) ([]byte, error) { return nil, errors.New("plain") },
		"loud": func(c *Call) ([]byte, error) {
			for range 200 {
				c.Log(strings.Repeat("é", 4000))
			}
			return []byte("{}"), nil
		},
	}}
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"calls", []string{`{"function":"sync","time":"2026-01-02T03:04:05.678Z","seed":18446744073709551615}`, `{"a":1}`},
			[]string{`{"functions":["sync"]}`, `{"log":"in sync"}`, `{"response":{"request":{"a":1},"seed":18446744073709551615,"year":2026}}`, ""}},
		{"errors", []string{`{"function":"fail"}`, "{}", `{"function":"broken"}`, "{}"},
			[]string{`{"functions":["sync"]}`, `{"error":{"file":"a.js","line":3,"column":4,"message":"no"}}`, `{"error":{"message":"plain"}}`, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := converse(t, engine, append([]string{load}, c.lines...)...)
			if want := strings.Join(c.want, "\n"); out != want || err != nil {
				t.Errorf("got %s, %v\nwant %s", out, err, want)
			}
		})
	}
	out, _ := converse(t, engine, load, `{"function":"loud"}`, "{}")
	if lines := strings.Split(out, "\n"); len(lines) != maxLogLines+4 || lines[maxLogLines+1] != `{"log":"100 more lines; a call may log 100"}` || len(lines[1]) > 5000 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestLoadErrors(t *testing.T) {
	out, err := converse(t, echoEngine{loadError: &Error{File: "a.js", Line: 1, Message: "unexpected end"}}, load, "{}", "{}")
	if want := `{"error":{"file":"a.js","line":1,"message":"unexpected end"}}` + "\n"; out != want || err != nil {
		t.Errorf("%s, %v", out, err)
	}
	for line, want := range map[string]string{
		`{"language":"Cobol"}`: `there is no engine for the language "Cobol"`,
		"hello":                "read the source: invalid character",
	} {
		if _, err := converse(t, echoEngine{}, line); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Error(err)
		}
	}
}

func TestParseOutput(t *testing.T) {
	for _, output := range []Output{
		{Functions: []string{}},
		{Response: []byte(`{"a":[1,2]}`)},
		{Error: &Error{File: "a", Line: 1, Column: 2, Message: "m", Stack: []string{"f (a:1:2)"}, Limit: "memory 128MiB"}},
		{Log: new(string)},
	} {
		line := output.line()
		got, err := ParseOutput(line[:len(line)-1])
		if err != nil || fmt.Sprint(got.Functions, string(got.Response), got.Error) != fmt.Sprint(output.Functions, string(output.Response), output.Error) || (got.Log == nil) != (output.Log == nil) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
	for _, line := range []string{"", "hello", "{}", `{"response":`, "[]"} {
		if got, err := ParseOutput([]byte(line)); err == nil {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

// A call reads the time in milliseconds.
func TestTimeOfCall(t *testing.T) {
	var at time.Time
	engine := echoEngine{functions: map[string]func(c *Call) ([]byte, error){"sync": func(c *Call) ([]byte, error) {
		at = c.Time
		return []byte("{}"), nil
	}}}
	if _, err := converse(t, engine, load, `{"function":"sync","time":"2026-01-02T03:04:05.678Z"}`, "{}"); err != nil || at.UnixMilli()%1000 != 678 {
		t.Errorf("%v, %v", at, err)
	}
}
