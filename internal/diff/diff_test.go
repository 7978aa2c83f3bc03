package diff

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestObjects(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{
			"the spec before metadata, the status last",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"1"}},"spec":{"containers":[{"name":"web","image":"nginx:1.27"}]},"status":{"phase":"Pending"}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"2"},"resourceVersion":"7"},"spec":{"containers":[{"name":"web","image":"nginx:1.28"}]},"status":{"phase":"Running"}}`,
			"spec.containers[name=web].image nginx:1.27 -> nginx:1.28\nmetadata.labels.x \"1\" -> \"2\"\nstatus.phase Pending -> Running\n",
		},
		{
			"conditions by their type",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"conditions":[{"type":"A","status":"True"},{"type":"Ready","status":"False"}]}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"A","status":"True"}]}}`,
			"status.conditions[type=Ready].status False -> True\n",
		},
		{
			"items by their key",
			`{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"spec":{"rules":[{"key":"a","to":"1s"},{"key":"b"}]}}`,
			`{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"spec":{"rules":[{"key":"a","to":"2s"},{"key":"b"}]}}`,
			"spec.rules[key=a].to 1s -> 2s\n",
		},
		{
			"values of a Secret are masked",
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"p":"YQ=="}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"p":"Yg=="}}`,
			"data.p *** (before) -> *** (after)\n",
		},
		{"nothing", `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","resourceVersion":"1"}}`, `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","resourceVersion":"2"}}`, ""},
		{"no object before", ``, `{"apiVersion":"v1","kind":"X"}`, "apiVersion  -> v1\nkind  -> X\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changes := must.Get(Objects(json.RawMessage(c.before), json.RawMessage(c.after))).In(t)
			if got := changesText(changes); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
	if _, err := Objects(nil, json.RawMessage(strings.Repeat(" ", 8)+`{"a":"`+strings.Repeat("x", MaxBytes)+`"}`)); err == nil {
		t.Error("an object over the limit was compared")
	}
}

func changesText(changes []inspect.Change) string {
	var text strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&text, "%s %s -> %s\n", c.Path, Value(c.From), Value(c.To))
	}
	return text.String()
}

func TestRequests(t *testing.T) {
	pod := func(name, uid, rest string) string {
		return `"` + name + `":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"` + name + `","uid":"` + uid + `"` + rest + `}`
	}
	controller := `{"apiVersion":"v1","kind":"C","metadata":{"name":"c"}}`
	request := func(image string, pods ...string) json.RawMessage {
		return json.RawMessage(`{"controller":` + controller + `,"parent":{"apiVersion":"x.io/v1","kind":"Web","metadata":{"name":"w","namespace":"default"},"spec":{"image":"` + image +
			`"}},"children":{"Pod.v1":{` + strings.Join(pods, ",") + `}},"related":{},"finalizing":false}`)
	}
	for _, c := range []struct {
		name          string
		before, after json.RawMessage
		want          string
	}{
		{"nothing", request("a"), request("a"), ""},
		{"the object", request("nginx:1.27"), request("nginx:1.28"), "object Web default/w changed: spec.image nginx:1.27 -> nginx:1.28\n"},
		{"a child's status", request("a", pod("a", "1", `},"status":{"phase":"Pending"}`)), request("a", pod("a", "1", `},"status":{"phase":"Running"}`)),
			"child Pod default/a changed: status.phase Pending -> Running\n"},
		{"children come and go", request("a", pod("a", "1", "}")), request("a", pod("b", "2", "}")), "child Pod default/a deleted\nchild Pod default/b added\n"},
		{"another of that name", request("a", pod("a", "1", "}")), request("a", pod("a", "2", "}")), "child Pod default/a replaced\n"},
		{"a child that goes", request("a", pod("a", "1", "}")), request("a", pod("a", "1", `,"deletionTimestamp":"2026-01-01T00:00:00Z"}`)), "child Pod default/a terminating\n"},
		{"versions alone", request("a", pod("a", "1", `,"resourceVersion":"1"}`)), request("a", pod("a", "1", `,"resourceVersion":"2"}`)), ""},
		{"a decorator's", json.RawMessage(`{"object":{"apiVersion":"v1","kind":"X","metadata":{"name":"a"}},"attachments":{}}`),
			json.RawMessage(`{"object":{"apiVersion":"v1","kind":"X","metadata":{"name":"a","labels":{"b":"c"}}},"attachments":{"X.v1":{"b":{"apiVersion":"v1","kind":"X","metadata":{"name":"b"}}}}}`),
			"object X a changed: metadata.labels.b  -> c\nchild X b added\n"},
		{"what is no object", json.RawMessage(`{"parent":"a","children":{"Pod.v1":{"a":5}}}`), json.RawMessage(`{"parent":["b"],"children":{"Pod.v1":{"a":6}}}`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			changes := must.Get(Requests(c.before, c.after)).In(t)
			var text strings.Builder
			for _, p := range changes {
				name := p.Object.Name
				if p.Object.Namespace != "" {
					name = p.Object.Namespace + "/" + name
				}
				fmt.Fprintf(&text, "%s %s %s %s", p.Role, p.Object.Kind.Kind, name, p.Type)
				if len(p.Changes) > 0 {
					text.WriteString(": " + changesText(p.Changes))
					continue
				}
				text.WriteString("\n")
			}
			if got := text.String(); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
	if _, err := Requests(json.RawMessage(`{`), json.RawMessage(`{}`)); err == nil {
		t.Error("half a request was read")
	}
}

func TestFieldManagers(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(manager string, ago time.Duration, fields string) string {
		return `{"manager":"` + manager + `","operation":"Update","time":"` + now.Add(-ago).Format(time.RFC3339) + `","fieldsType":"FieldsV1","fieldsV1":` + fields + `}`
	}
	const (
		spec    = `{"f:spec":{"f:image":{}}}`
		replica = `{"f:spec":{"f:replicas":{}}}`
		keyed   = `{"f:spec":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}}}}`
	)
	for _, c := range []struct {
		name, managed, before, after, want string
	}{
		{"who owns the field", "[" + entry("kubectl-edit", 3*time.Second, spec) + "," + entry("hpa", 2*time.Second, replica) + "]",
			`{"spec":{"image":"a","replicas":1}}`, `{"spec":{"image":"b","replicas":1}}`, "kubectl-edit"},
		{"too long ago", "[" + entry("kubectl-edit", time.Minute, spec) + "]", `{"spec":{"image":"a"}}`, `{"spec":{"image":"b"}}`, ""},
		{"written again since", "[" + entry("kubectl-edit", -time.Minute, spec) + "]", `{"spec":{"image":"a"}}`, `{"spec":{"image":"b"}}`, ""},
		{"the only one, of a field that went", "[" + entry("kubectl-edit", time.Second, spec) + "]", `{"spec":{"image":"a","x":1}}`, `{"spec":{"image":"a"}}`, "kubectl-edit"},
		{"two, of a field that went", "[" + entry("a", time.Second, spec) + "," + entry("b", time.Second, replica) + "]", `{"spec":{"x":1}}`, `{"spec":{}}`, ""},
		{"an item by its key, with the protocol that is the default", "[" + entry("helm", time.Second, keyed) + "," + entry("b", time.Second, replica) + "]",
			`{"spec":{"ports":[{"containerPort":80,"name":"a"}]}}`, `{"spec":{"ports":[{"containerPort":80,"name":"b"}]}}`, "helm"},
		{"once, with the status too", "[" + entry("k", time.Second, spec) + "," + entry("k", time.Second, replica) + "]",
			`{"spec":{"image":"a","replicas":1}}`, `{"spec":{"image":"b","replicas":2}}`, "k"},
		// Fault U7: a page showed "created by kubectl-run and kwok".
		{"who created it, not who wrote its status", "[" + entry("kubectl-run", time.Second, spec) + "," + strings.Replace(entry("kwok", time.Second, spec), `"operation"`, `"subresource":"status","operation"`, 1) + "]",
			``, `{"spec":{"image":"a"}}`, "kubectl-run"},
		// Fault U1: a status written by the controller was attributed to the client that had
		// patched the spec before.
		{"written by another, once more since", "[" + entry("kubectl-patch", time.Second, spec) + "," + entry("setpoint", -time.Second, replica) + "]",
			`{"spec":{"image":"a","replicas":1}}`, `{"spec":{"image":"a","replicas":2}}`, ""},
		{"no time", `[{"manager":"x","fieldsV1":{}}]`, `{"spec":1}`, `{"spec":2}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			authors := must.Get(FieldManagers(json.RawMessage(c.managed), json.RawMessage(c.before), json.RawMessage(c.after), now.Add(-10*time.Second), now)).In(t)
			if text := strings.Join(authors, ", "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
	for _, broken := range []string{`{`, `[{"manager":"x","time":"2026-01-02T03:04:05Z","fieldsV1":{"nonsense":7}}]`} {
		if _, err := FieldManagers(json.RawMessage(broken), nil, nil, now.Add(-time.Minute), now); err == nil {
			t.Errorf("%s: read", broken)
		}
	}
}

func TestValue(t *testing.T) {
	for value, want := range map[string]string{
		`"nginx:1.27"`:                          "nginx:1.27",
		`"5"`:                                   `"5"`,
		`"true"`:                                `"true"`,
		`""`:                                    `""`,
		`" a"`:                                  `" a"`,
		`5`:                                     "5",
		`{"a": [1, 2]}`:                         `{"a":[1,2]}`,
		`{"a":"\u003ch1\u003e \u0026 \\u003c"}`: `{"a":"<h1> & \\u003c"}`,
		`"a\u202eb"`:                            `a\u202eb`,
		"\"a\u202eb\u0007\"":                    "\"a\\u202eb\\u0007\"",
		``:                                      "",
		`{`:                                     `{`,
	} {
		if got := Value(json.RawMessage(value)); got != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
	if got := Value(json.RawMessage(`"` + strings.Repeat("ä", 1<<20) + `"`)); len([]rune(got)) != maxValue+1 {
		t.Errorf("a long value has %d characters", len([]rune(got)))
	}
}

func TestPretty(t *testing.T) {
	if got, cut := Pretty(json.RawMessage(`{"a":1,"b":"<script>"}`), 1000); got != "{\n  \"a\": 1,\n  \"b\": \"<script>\"\n}" || cut {
		t.Errorf("got %s, %v", got, cut)
	}
	if got, cut := Pretty(json.RawMessage(`not JSON`), 1000); got != "not JSON" || cut {
		t.Errorf("got %s, %v", got, cut)
	}
	if got, cut := Pretty(json.RawMessage(`{"a":"`+strings.Repeat("x", 2000)+`"}`), 1000); len(got) > 1000 || !cut {
		t.Errorf("got %d bytes, %v", len(got), cut)
	}
	deep := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	if got, cut := Pretty(json.RawMessage(deep), MaxBytes); got != deep || cut {
		t.Errorf("nested deep: %d bytes, %v", len(got), cut)
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing", "a\nb\n", "a\nb\n", "@2"},
		{"a line", "a\nb\nc", "a\nx\nc", " a-b+x c"},
		{"from nothing", "", "a\nb", "+a+b"},
		{"to nothing", "a\nb", "", "-a-b"},
		{"far away", "1\n2\n3\n4\n5\n6\n7", "1\n2\n3\n4\n5\n6\nx", "@3 4 5 6-7+x"},
		{"moved", "a\nb\nc\nd", "b\nc\na\nd", "-a b c+a d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := signedLines(Texts(c.before, c.after)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func signedLines(text Text) string {
	var got strings.Builder
	for _, line := range text.Lines {
		got.WriteString(string(line.Sign) + line.Text)
		if line.Sign == '@' {
			fmt.Fprint(&got, line.Skipped)
		}
	}
	return got.String()
}

// Unchanged and removed lines are the first text, unchanged and added ones the second.
func TestTextsAreWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func() string {
		var lines strings.Builder
		for range random.IntN(12) {
			fmt.Fprintf(&lines, "%c\n", 'a'+random.IntN(3))
		}
		return lines.String()
	}
	for range 2000 {
		a, b := some(), some()
		var left, right strings.Builder
		rest := a
		take := func() string {
			line, after, _ := strings.Cut(rest, "\n")
			rest = after
			return line + "\n"
		}
		for _, line := range Texts(a, b).Lines {
			switch line.Sign {
			case '@':
				for range line.Skipped {
					skipped := take()
					left.WriteString(skipped)
					right.WriteString(skipped)
				}
			case '+':
				right.WriteString(line.Text + "\n")
			default:
				left.WriteString(take())
				if line.Sign == ' ' {
					right.WriteString(line.Text + "\n")
				}
			}
		}
		if left.String() != a || right.String() != b {
			t.Fatalf("%q to %q: got %q and %q", a, b, left.String(), right.String())
		}
	}
}

// Very different texts are shown, within limits.
func TestTextsAreBounded(t *testing.T) {
	long := func(prefix string) string {
		var text strings.Builder
		for i := range 50_000 {
			fmt.Fprintln(&text, prefix, i)
		}
		return text.String()
	}
	began := time.Now()
	got := Texts(long("a"), long("b"))
	if !got.Truncated || len(got.Lines) != maxLines || got.Added != 50_000 {
		t.Errorf("cut %v, %d lines, %d added", got.Truncated, len(got.Lines), got.Added)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestSignificant(t *testing.T) {
	one, two := json.RawMessage(`"1"`), json.RawMessage(`"2"`)
	change := func(path string, from, to json.RawMessage) inspect.Change {
		return inspect.Change{Path: path, From: from, To: to}
	}
	changes := []inspect.Change{
		change("status.conditions[type=Ready].lastProbeTime", nil, json.RawMessage("null")),
		change("status.conditions[type=Ready].lastTransitionTime", nil, one),
		change("status.conditions[type=Ready].status", nil, one),
		change("status.conditions[type=Ready].type", nil, one),
		change("status.containerStatuses[name=a].image", nil, one),
		change("status.observedGeneration", one, two),
		change("status.phase", one, two),
		change("spec.nodeName", one, nil),
		change("spec.containers[name=a].image", one, two),
		change("spec.volumes[name=kube-api-access-x].name", one, nil),
	}
	for _, c := range []struct {
		most int
		want string
	}{
		{3, "spec.containers[name=a].image status.conditions[type=Ready].status status.phase and 7"},
		{100, "spec.containers[name=a].image status.conditions[type=Ready].status status.phase spec.nodeName and 6"},
	} {
		significant, rest := Significant(changes, c.most)
		got := lists.Map(significant, func(t inspect.Change) string { return t.Path })
		if text := fmt.Sprintf("%s and %d", strings.Join(got, " "), rest); text != c.want {
			t.Errorf("got  %s\nwant %s", text, c.want)
		}
	}
	// Noise is shown if nothing else changed.
	if significant, rest := Significant(changes[5:6], 3); len(significant) != 1 || rest != 0 {
		t.Errorf("%v and %d", significant, rest)
	}
}
