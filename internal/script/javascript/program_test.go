package javascript

import (
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// TestTopLevel has code outside of functions: each call sees it as if it ran in that call.
func TestTopLevel(t *testing.T) {
	for name, test := range map[string]struct {
		source string
		want   [2]string
	}{
		"the clock": {
			"const at = new Date(), string = Date(); export const sync = () => ({at, string, n: Date.now() - at})",
			[2]string{
				`{"at":"1970-01-01T00:00:01.000Z","string":"Thu Jan 01 1970 00:00:01 GMT+0000","n":0}`,
				`{"at":"1970-01-01T00:00:02.000Z","string":"Thu Jan 01 1970 00:00:02 GMT+0000","n":0}`,
			},
		},
		"the clock of a module": {
			"import {at} from './at.js'; export const sync = () => ({at})\n-- at.js --\nexport const at = await Promise.resolve().then(Date.now)",
			[2]string{`{"at":1000}`, `{"at":2000}`},
		},
		"random numbers": {
			"const n = Math.floor(Math.random() * 1000); export const sync = () => ({n})", [2]string{`{"n":133}`, `{"n":481}`},
		},
		"the log":          {"console.log('top'); export const sync = () => ({})", [2]string{"top {}", "top {}"}},
		"state":            {"let n = 0; const seen = []; export const sync = r => ({n: ++n, seen: seen.push(r)})", [2]string{`{"n":1,"seen":1}`, `{"n":1,"seen":1}`}},
		"globals":          {"globalThis.n = 0; Object.prototype.p = []; export const sync = () => ({n: ++n, p: [].p.push(1)})", [2]string{`{"n":1,"p":1}`, `{"n":1,"p":1}`}},
		"a table":          {"const t = Array.from({length: 5000}, (_, i) => ({i})); export const sync = () => ({n: t.push(0), s: t[4999].i++})", [2]string{`{"n":5001,"s":4999}`, `{"n":5001,"s":4999}`}},
		"only in a call":   {"export const sync = () => ({now: Date.now()})", [2]string{`{"now":1000}`, `{"now":2000}`}},
		"a fixed date":     {"const at = new Date(0); export const sync = () => ({at: at.setTime(Date.now() + at.getTime())})", [2]string{`{"at":1000}`, `{"at":2000}`}},
		"a pending job":    {"let n = 0; Promise.resolve().then(() => n++); export const sync = async () => ({n, later: await n})", [2]string{`{"n":1,"later":1}`, `{"n":1,"later":1}`}},
		"a caught promise": {"const p = Promise.reject(1); p.catch(() => {}); export const sync = () => p.catch(n => ({n}))", [2]string{`{"n":1}`, `{"n":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			entry, module, _ := strings.Cut(test.source, "-- at.js --")
			p := must.Get(Engine{}.Load(script.Files{Entry: "sync.js", Sources: map[string]string{"sync.js": entry, "at.js": module}})).In(t)
			for i, want := range test.want {
				var log string
				response, err := p.Call(&script.Call{
					Function: "sync", Request: []byte("{}"), Time: time.Unix(int64(i)+1, 0), Seed: uint64(i) + 1,
					Log: func(line string) { log += line + " " },
				})
				if got := log + string(response); err != nil || got != want {
					t.Errorf("call %d: got %s, %v, want %s", i, got, err, want)
				}
			}
		})
	}
}
