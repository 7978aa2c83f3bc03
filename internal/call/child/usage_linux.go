package child

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

const (
	// ticks is USER_HZ, which is 100 on all architectures of Go.
	ticks = 100
	// Fields of /proc/PID/stat after the name of the program in parentheses.
	fieldUserTime, fieldSystemTime = 11, 12
)

// usage returns the memory of a process that no other shares, and its processor time; zero for a
// process that is gone.
func usage(pid int) (memory int64, cpu time.Duration) {
	folder := "/proc/" + strconv.Itoa(pid)
	statm, _ := os.ReadFile(folder + "/statm")
	if fields := numbers(statm); len(fields) > 2 {
		memory = (fields[1] - fields[2]) * int64(os.Getpagesize())
	}
	stat, _ := os.ReadFile(folder + "/stat")
	// The name may have spaces and parentheses.
	if fields := numbers(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) > fieldSystemTime {
		cpu = time.Duration(fields[fieldUserTime]+fields[fieldSystemTime]) * (time.Second / ticks)
	}
	return memory, cpu
}

// numbers returns the fields of a line as numbers; 0 for those that are none.
func numbers(line []byte) []int64 {
	var all []int64
	for field := range bytes.FieldsSeq(line) {
		n, _ := strconv.ParseInt(string(field), 10, 64)
		all = append(all, n)
	}
	return all
}
