package scripttest

import (
	"strings"
	"testing"
)

// TestMemoryOfTheProcess has code that takes memory which no engine counts: the process ends, and
// says no response.
func TestMemoryOfTheProcess(t *testing.T) {
	const engine = 32 << 20
	for name, k := range map[string]task{
		"JavaScript, 10 GB":         {Language: "JavaScript", Source: `export const sync = () => { const a = []; for (;;) a.push(new Uint8Array(1e9)) }`},
		"JavaScript, with a limit":  {Language: "JavaScript", Source: `export const sync = () => { const a = []; for (;;) a.push(new Uint8Array(1e9)) }`, MemoryBytes: engine},
		"JavaScript, deep and wide": {Language: "JavaScript", Source: `export const sync = () => { let a = []; for (;;) a = [a, a.slice(0, 9), 'x'.repeat(1e5) + a.length] }`, MemoryBytes: engine},
		"Starlark, 10 GB":           {Language: "Starlark", Source: "def sync(r):\n  a = []\n  for i in range(1 << 40):\n    a.append('x' * 100000000)\n  return {}"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := k.command(t).Output()
			if err == nil || strings.Contains(string(output), "response:") {
				t.Errorf("ended with %v: %.200s", err, output)
			}
			if k.MemoryBytes > 0 && !strings.Contains(string(output), "out of memory") {
				t.Errorf("the error does not say what ran out: %.200s", output)
			}
		})
	}
}
