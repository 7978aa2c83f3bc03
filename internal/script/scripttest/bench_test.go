package scripttest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// BenchmarkCall calls the hook of a RollingSet with three pods. CPU is that of the whole process,
// with what happens between two calls.
func BenchmarkCall(b *testing.B) {
	request := []byte(read(b, "testdata/rolling-set/requests/steady.json"))
	for _, l := range languages {
		b.Run(l.name, func(b *testing.B) {
			p := l.load(b, read(b, "testdata/rolling-set/sync"+l.ending))
			response := must.Get(p.Call(&script.Call{Function: "sync", Request: request})).In(b)
			before := cpu(b)
			for b.Loop() {
				must.Get(p.Call(&script.Call{Function: "sync", Request: request})).In(b)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1000, "cpu-µs/op")
			b.ReportMetric(float64(len(request)), "B-in")
			b.ReportMetric(float64(len(response)), "B-out")
		})
	}
}

// BenchmarkLoad compiles the hook. What it leaves is what one idle child keeps besides the program
// that it is.
func BenchmarkLoad(b *testing.B) {
	for _, l := range languages {
		b.Run(l.name, func(b *testing.B) {
			source := read(b, "testdata/rolling-set/sync"+l.ending)
			var programs []script.Program
			before, resident := cpu(b), residentBytes(b)
			for b.Loop() {
				programs = append(programs, l.load(b, source))
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1000, "cpu-µs/op")
			b.ReportMetric(float64(residentBytes(b)-resident)/float64(len(programs))/1024, "KiB/program")
		})
	}
}

func cpu(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	must.Succeed(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func residentBytes(b *testing.B) int64 {
	b.Helper()
	var pages, resident int64
	statm, err := os.Open("/proc/self/statm")
	if err != nil {
		return 0
	}
	defer statm.Close()
	must.Get(fmt.Fscan(statm, &pages, &resident)).In(b)
	return resident * int64(os.Getpagesize())
}
