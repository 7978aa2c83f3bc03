package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// seeing returns the values of one Secret.
func seeing(t *testing.T, data map[string]string, public ...string) *Values {
	t.Helper()
	secret := must.Get(json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": data})).In(t)
	values := New(nil, public...)
	values.See(false, func(visit func(json.RawMessage)) { visit(secret) })
	return values
}

// escaped returns every character of a text as \u with four digits.
func escaped(text string) (all string) {
	for _, r := range text {
		all += fmt.Sprintf(`\u%04x`, r)
	}
	return all
}

// quotedTimes returns a text as JSON in a text of JSON, and so on.
func quotedTimes(text string, times int) string {
	for range times {
		quoted, _ := json.Marshal(map[string]string{"in": text})
		text = string(quoted)
	}
	return text
}

// Encoders write a value in many ways. None of them is in a text that leaves.
func TestForms(t *testing.T) {
	encode := base64.StdEncoding.EncodeToString
	for _, value := range []string{"hunter2-zulu", "pä ss\"<w>\\ö&=/+rd", "two\nlines of it", "a-very-long-value-" + strings.Repeat("0123456789", 30)} {
		values := seeing(t, map[string]string{"password": value})
		for name, text := range map[string]string{
			"as it is":            value,
			"within a word":       "x" + value + "x",
			"JSON":                quotedTimes(value, 1),
			"JSON in JSON":        quotedTimes(value, 2),
			"three times":         quotedTimes(value, 3),
			"all escaped":         escaped(value),
			"quoted by Go":        strconv.Quote(value),
			"quoted as ASCII":     strconv.QuoteToASCII(value),
			"base64":              encode([]byte(value)),
			"base64, no padding":  base64.RawStdEncoding.EncodeToString([]byte(value)),
			"base64 of base64":    encode([]byte(encode([]byte(value)))),
			"base64 of URLs":      base64.URLEncoding.EncodeToString([]byte(value)),
			"after one byte":      encode([]byte("u" + value)),
			"user and password":   "Basic " + encode([]byte("me:"+value)),
			"with a line break":   encode([]byte(value + "\n")),
			"base64 in JSON":      quotedTimes(encode([]byte(value)), 2),
			"hexadecimal":         hex.EncodeToString([]byte(value)),
			"HEXADECIMAL":         strings.ToUpper(hex.EncodeToString([]byte(value))),
			"a query":             url.QueryEscape(value),
			"a path":              url.PathEscape(value),
			"a query in JSON":     quotedTimes("https://h/?p="+url.QueryEscape(value), 2),
			"in one line":         strings.Join(strings.Fields(value), " "),
			"slashes with escape": strings.ReplaceAll(quotedTimes(value, 1), "/", `\/`),
		} {
			got := values.Text("before " + text + " after")
			// The ends of what is encoded together with other bytes tell less than a byte.
			left := strings.NewReplacer("before ", "", " after", "", Mask, "").Replace(got)
			for size := min(len(value), 6); size <= len(text); size = len(text) + 1 {
				for i := 0; i+size <= len(left); i++ {
					if part := left[i : i+size]; strings.Contains(value, part) {
						t.Errorf("%q, %s: %q is in %s", value, name, part, got)
					}
				}
			}
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || !strings.Contains(got, Mask) {
				t.Errorf("%q, %s: %s", value, name, got)
			}
		}
	}
}

func TestWhatIsFound(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq1\nhkiG9w0BAQEFAASC2\n-----END PRIVATE KEY-----\n"
	for _, c := range []struct{ name, value, text, want string }{
		{"a literal", "true", "is true", "is true"},
		{"a status", "True", `"status":"True"`, `"status":"True"`},
		{"the namespace of all clusters", "default", "Deployment default/web", "Deployment default/web"},
		{"one digit", "1", "1 of 1", "1 of 1"},
		{"a port", "5432", "port 5432", "port 5432"},
		{"a number", "123456", "pin 123456", "pin ••••••"},
		{"a field of every object", "metadata", `{"metadata":{}}`, `{"metadata":{}}`},
		{"the name of the object", "team-a", "Team shop/team-a", "Team shop/team-a"},
		{"a short value", "info", `the log level "info" is known`, `the log level "••••••" is known`},
		{"a short value in a word", "info", "information", "information"},
		{"a value in a longer one", "hunter2-zulu", "hunter2-zulu-2", "••••••-2"},
		{"a quote that is cut", "postgres://me:hunter2-zulu@db/shop", "cannot parse postgres://me:hunter2-zulu@…", "cannot parse ••••••…"},
		{"a quote that is cut early", "hunter2-zulu", "wrong: hunter2-…; next call in 5s", "wrong: ••••••…; next call in 5s"},
		{"a line of a key", pem, "line 2 is hkiG9w0BAQEFAASC2", "line 2 is ••••••"},
		{"what PEM begins with", pem, "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"},
		{"a text of JSON", `{"auths":{"a":{"password":"hunter2-zulu"}}}`, "login hunter2-zulu", "login ••••••"},
		{"what a line assigns", "user=me-and-you\npass: \"hunter2-zulu\"\n", "login hunter2-zulu", "login ••••••"},
		{"overlapping values", "hunter2-zulu", "hunter2-zuluhunter2-zulu", "••••••••••••"},
		{"nothing", "hunter2-zulu", "", ""},
	} {
		if got := seeing(t, map[string]string{"k": c.value}, "team-a", "shop").Text(c.text); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
	both := seeing(t, map[string]string{"a": "hunter2-zulu", "b": "zulu-and-more"})
	if got := both.Text("hunter2-zulu-and-more"); got != Mask {
		t.Errorf("overlapping values leave %s", got)
	}
}

// Errors keep what they wrap, and lines of logs their fields.
func TestErrorsAndLogs(t *testing.T) {
	values := seeing(t, map[string]string{"k": "hunter2-zulu"})
	cause := errors.New("refused: hunter2-zulu")
	err := fmt.Errorf("create: %w", values.Error(cause))
	if err.Error() != "create: refused: "+Mask || !errors.Is(err, cause) || values.Error(nil) != nil {
		t.Errorf("got %v", err)
	}
	var none *Values
	if none.Error(cause) != cause || none.Text("a") != "a" || none.Found() {
		t.Error("no values replace something")
	}
	var out bytes.Buffer
	log := values.Logger(slog.New(slog.NewTextHandler(&out, nil))).With("object", "hunter2-zulu").WithGroup("g")
	log.Warn("not hunter2-zulu", "error", cause, "n", 3, "text", "hunter2-zulu", slog.Group("inner", "text", "hunter2-zulu"))
	if line := out.String(); strings.Contains(line, "hunter2") || !strings.Contains(line, "g.n=3") || strings.Count(line, Mask) != 5 {
		t.Errorf("got %s", line)
	}
}

// A Secret and a text of a tenant, made to be slow, take time that grows with their size only.
func TestRepetitionIsNotSlow(t *testing.T) {
	value := strings.Repeat("a", 200_000)
	values := seeing(t, map[string]string{"k": value, "other": strings.Repeat("a", 199_000) + "b"})
	steps := strings.Repeat(value[:1000]+"!", 200)
	if got := values.Text(steps); strings.Contains(got, "aaaa") {
		t.Error("it is not masked")
	}
	if got := values.Text(base64.StdEncoding.EncodeToString([]byte(value))); len(got) > 100 {
		t.Errorf("%d bytes are left", len(got))
	}
	var alike strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&alike, "aaaaaaaa%d\n", i)
	}
	if got := seeing(t, map[string]string{"k": alike.String()}).Text(value); got != Mask {
		t.Errorf("a text that is like many values is %.100s", got)
	}
}

func BenchmarkText(b *testing.B) {
	data := map[string]string{}
	for i := range 100 {
		data[strconv.Itoa(i)] = fmt.Sprintf("value-%d-of-a-secret", i*7919)
	}
	secret, _ := json.Marshal(map[string]any{"kind": "Secret", "stringData": data})
	text := strings.Repeat("an ordinary line of a text that has \"quotes\", a \\ and no values\n", 1000)
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			values := New(nil)
			values.See(false, func(visit func(json.RawMessage)) { visit(secret) })
			values.Text("a")
		}
	})
	b.Run("find", func(b *testing.B) {
		values := New(nil)
		values.See(false, func(visit func(json.RawMessage)) { visit(secret) })
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			values.Text(text)
		}
	})
}
