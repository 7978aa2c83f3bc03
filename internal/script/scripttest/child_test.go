package scripttest

import (
	"strings"
	"testing"
)

const groups = `{"children":{"ConfigMap.v1":{"home/web":{"at":"home"},"home/both":{"at":"home"},"away/both":{"at":"away"}},` +
	`"Namespace.v1":{"home":{"at":"cluster"}},"Pod.v1":{}}}`

// The names of hooks find objects by their names, whatever the keys of the request.
func TestChild(t *testing.T) {
	for _, l := range languages {
		for of, want := range map[string]string{
			`"ConfigMap.v1", "web"`:       `{"found":{"at":"home"}}`,
			`"ConfigMap.v1", "home/web"`:  `{"found":{"at":"home"}}`,
			`"ConfigMap.v1", "away/both"`: `{"found":{"at":"away"}}`,
			`"Namespace.v1", "home"`:      `{"found":{"at":"cluster"}}`,
			`"ConfigMap.v1", "eb"`:        `{"found":null}`,
			`"ConfigMap.v1", "away/web"`:  `{"found":null}`,
			`"Namespace.v1", "toString"`:  `{"found":null}`,
			`"Pod.v1", "web"`:             `{"found":null}`,
		} {
			if got := call(t, l.load(t, l.child(of)), groups); got != want {
				t.Errorf("%s: child(%s) is %s, want %s", l.name, of, got, want)
			}
		}
		for of, want := range map[string]string{
			`"ConfigMap.v1", "both"`: "there are several ConfigMap.v1 both: name one of home/both, away/both",
			`"ConfigMap", "web"`:     "there are no objects ConfigMap: there are ConfigMap.v1, Namespace.v1, Pod.v1",
		} {
			if _, err := l.load(t, l.child(of)).Call(newCall(groups)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: child(%s): %v, want %s", l.name, of, err, want)
			}
		}
	}
}

// An author may use the name for something else.
func TestChildIsNoReservedName(t *testing.T) {
	for source, l := range map[string]language{
		"const child = 5; export const sync = () => ({child})":                       languages[0],
		"function child() { return 5 } export const sync = () => ({child: child()})": languages[0],
		"child = 5\ndef sync(request):\n    return {\"child\": child}":               languages[1],
	} {
		if got := call(t, l.load(t, source), groups); got != `{"child":5}` {
			t.Errorf("%s: %s", source, got)
		}
	}
}

// child is code that returns what child finds.
func (l language) child(arguments string) string {
	if l.ending == ".star" {
		return "def sync(request):\n    return {\"found\": child(request[\"children\"], " + arguments + ")}\n"
	}
	return "export const sync = ({children}) => ({found: child(children, " + arguments + ") ?? null})"
}
