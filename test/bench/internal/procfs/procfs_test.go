package procfs

import (
	"os"
	"runtime"
	"testing"
	"time"
)

const status = "Name:\tbench\nVmPeak:\t  900000 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nThreads:\t9\n"

func TestParse(t *testing.T) {
	const rest = " S 1 2 3 0 -1 4194560 5 6 7 8 123 77 9 9 20 0 9 0 100 1000 10\n"
	want := Usage{CPU: 2 * time.Second, RSS: 1 << 20, Peak: 2 << 20}
	for name, program := range map[string]string{
		"plain name":             "4242 (bench)",
		"name with odd contents": "4242 (a) b (c) 1 2 3)",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse([]byte(program+rest), []byte(status))
			if err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const good = "1 (x) S 1 2 3 0 -1 4 5 6 7 8 1 1 9 9\n"
	tests := map[string]struct{ stat, status string }{
		"short stat":     {"1 (x) S 1 2", status},
		"words in stat":  {"1 (x) S 1 2 3 0 -1 4 5 6 7 8 one 1 9 9\n", status},
		"no peak":        {good, "VmRSS:\t 1 kB\n"},
		"memory unknown": {good, "VmRSS:\t some kB\nVmHWM:\t 1 kB\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := parse([]byte(test.stat), []byte(test.status)); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}

func TestReadSelf(t *testing.T) {
	got, err := Read(os.Getpid())
	if runtime.GOOS != "linux" {
		if err == nil {
			t.Errorf("got %+v where there is no /proc, want an error", got)
		}
		return
	}
	if err != nil || got.RSS <= 0 || got.Peak < got.RSS {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestChildrenThatHaveEnded(t *testing.T) {
	used, err := parseCPU([]byte("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 11 22 300 400 20 0 1"), ended)
	if err != nil || used != 7*time.Second {
		t.Errorf("%s, %v", used, err)
	}
	if _, err := ChildrenCPU(os.Getpid()); err != nil && runtime.GOOS == "linux" {
		t.Error(err)
	}
}
