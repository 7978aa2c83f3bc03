package memory

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"
)

func TestReleaseProgram(t *testing.T) {
	program := must.Get(os.ReadFile("/proc/self/exe")).In(t) // Not mapped, but in the page cache: what follows maps much at once.
	debug.FreeOSMemory()
	before := residentOfFiles(t)
	releaseProgram()
	after := residentOfFiles(t)
	if after >= before {
		t.Errorf("%d KiB of files were resident, and %d are, of a program of %d KiB", before, after, len(program)>>10)
	}
}

// residentOfFiles returns how much of mapped files is resident, in KiB.
func residentOfFiles(t *testing.T) int {
	t.Helper()
	status := must.Get(os.ReadFile("/proc/self/status")).In(t)
	found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no RssFile in\n%s", status)
	}
	return must.Get(strconv.Atoi(string(found[1]))).In(t)
}

func TestUnchangedMapping(t *testing.T) {
	const program = "/usr/bin/set point"
	for line, want := range map[string]struct {
		begin, end uintptr
		ok         bool
	}{
		"00400000-0244e000 r-xp 00000000 fe:00 9986804                            " + program:         {0x400000, 0x244e000, true},
		"0244e000-047c7000 r--p 0204e000 fe:00 9986804                            " + program:         {0x244e000, 0x47c7000, true},
		"047c7000-048ad000 rw-p 043c7000 fe:00 9986804                            " + program:         {},
		"00400000-0244e000 r-xp 00000000 fe:00 9986804                            /usr/lib/libc.so.6": {},
		"c000000000-c000400000 rw-p 00000000 00:00 0 ":                                                {},
		"7ffe0000-7ffe1000 r-xp 00000000 00:00 0                                  [vdso]":             {},
		"": {},
	} {
		if begin, end, ok := unchangedMapping(line, program); ok != want.ok || ok && (begin != want.begin || end != want.end) {
			t.Errorf("%q: %x-%x, %v; want %x-%x, %v", line, begin, end, ok, want.begin, want.end, want.ok)
		}
	}
}
