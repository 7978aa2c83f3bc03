package inline

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/call"
)

// maxFormerBytes bounds the texts of code that no longer runs.
const maxFormerBytes = 1 << 20

// formerCode keeps the texts of the code that ran last, so that the history can tell what changed.
type formerCode struct {
	mu    sync.Mutex
	codes []call.Code
	bytes int
}

// add adds code that no longer runs, and forgets the oldest texts beyond the bound.
func (f *formerCode) add(code call.Code) {
	f.mu.Lock()
	defer f.mu.Unlock()
	code = code.WithSource()
	f.codes, f.bytes = append(f.codes, code), f.bytes+len(code.Source)
	for f.bytes > maxFormerBytes {
		f.bytes -= len(f.codes[0].Source)
		f.codes[0].Forget()
		f.codes = f.codes[1:]
	}
}

// digestOf returns the digest of the code of a script.
func digestOf(s call.Script) string {
	sum := sha256.Sum256(encode([]any{s.Language, s.Entry, s.Sources}))
	return hex.EncodeToString(sum[:])
}

// textOf returns the files of a script, that with the functions first. Others have their names above them.
func textOf(s call.Script) string {
	var text strings.Builder
	text.WriteString(s.Sources[s.Entry])
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		if name != s.Entry {
			text.WriteString("\n--- " + name + "\n" + s.Sources[name])
		}
	}
	return text.String()
}
