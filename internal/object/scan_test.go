package object

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// texts returns JSON, and nearly JSON.
func texts() []string {
	return []string{
		`{}`, ` { } `, `[]`, `null`, `true`, `tru`, `nullx`, `""`, `"`, `"\"`, `{"a":1,}`, `[1,]`, `[,1]`, `{"a" 1}`, `{"a":}`, `{1:1}`, `{"a":1 "b":2}`,
		`{"metadata":{"name":"x","labels":{"a":"b"},"ownerReferences":[{"uid":"u","controller":true},null]},"spec":[[],{},[{}]]}`,
		`"\u0041\ud83d\ude00\/\b\f\n\r\t"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\u00g0"`, `"\x"`, `"\u00"`,
		"\"\x01\"", "\"\x1f234567\"", "\"1234567\x7f\"", "\"\xff\"", "\"é and €\"", "\"\xed\xa0\x80\"", "\"12345678\\\"12345678\"",
		`0`, `-0`, `01`, `1.`, `1.5`, `.5`, `1e5`, `1E+5`, `1e`, `-`, `+1`, `123456789012345678901234567890`, `1 2`, `{}A`, ``, ` `,
		strings.Repeat("[", 99) + strings.Repeat("]", 99), strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9),
	}
}

// FuzzScan checks that the scanner and the decoder read the same.
func FuzzScan(f *testing.F) {
	for _, text := range texts() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		options := jsontext.AllowDuplicateNames(true)
		valid := jsontext.Value(data).IsValid(options)
		quick, err := walk(&scanner{data: data})
		if err == nil && !valid {
			t.Fatalf("%q is read as %s", data, quick)
		}
		if err != nil && valid {
			t.Fatalf("%q is not read", data)
		}
		if err != nil {
			return
		}
		slow, err := walk(jsontext.NewDecoder(bytes.NewBuffer(data), options))
		if err != nil || quick != slow {
			t.Errorf("%q: read as %s, by the decoder as %s (%v)", data, quick, slow, err)
		}
	})
}

// walk reads a value, two levels of it token by token, and returns what it read.
func walk(from reader) (string, error) {
	var met strings.Builder
	note := func(kind jsontext.Kind, text []byte) {
		met.WriteString(kind.String())
		met.WriteByte(' ')
		met.Write(text)
		met.WriteString(strings.Repeat("~", int(from.InputOffset())))
	}
	if err := descend(from, note, 2); err != nil {
		return met.String(), err
	}
	if _, err := from.ReadToken(); !errors.Is(err, io.EOF) {
		return met.String(), errors.New("more follows")
	}
	return met.String(), nil
}

func descend(from reader, note func(jsontext.Kind, []byte), levels int) error {
	kind := from.PeekKind()
	if levels == 0 || kind != '{' && kind != '[' {
		value, err := from.ReadValue()
		note(kind, value)
		return err
	}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	note(kind, nil)
	for from.PeekKind() != kind+2 { // the closing bracket
		if kind == '{' {
			name, err := from.ReadValue()
			if err != nil {
				return err
			}
			note('"', name)
		}
		if err := descend(from, note, levels-1); err != nil {
			return err
		}
	}
	token, err := from.ReadToken()
	note(token.Kind(), nil)
	return err
}

// TestScannerReadsPlainJSON checks JSON as API servers send it.
func TestScannerReadsPlainJSON(t *testing.T) {
	for _, text := range []string{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","annotations":{"a":"{\"b\":[1,2.5e-3]}"},"labels":{"é":"€"}},"spec":{"n":null,"t":true,"f":false}}`,
		"{ \"metadata\" : { \"labels\" : { \"a\" : \"b\" } } ,\n\t\"data\" : { } }",
	} {
		p := parser{data: []byte(text)}
		p.scan.data = p.data
		p.dec = &p.scan
		if err := p.document(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
