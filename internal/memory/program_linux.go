package memory

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseProgram drops the pages of the program, its code and constants, from the resident memory of this process. They are
// unchanged copies of the file, so that the next use of a page maps it again, which costs little while the file is in
// memory. The start of a large program touches most pages, if only by package initializers, and its work few of them.
func releaseProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		begin, end, ok := unchangedMapping(lines.Text(), program)
		if !ok {
			continue
		}
		// syscall.Madvise takes a slice, which memory outside of the heap is not.
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, begin, end-begin, syscall.MADV_DONTNEED) // They stay where this fails.
	}
}

// unchangedMapping parses a line of /proc/PID/maps. It reports whether it is a mapping of the file that cannot be written.
func unchangedMapping(line, file string) (begin, end uintptr, ok bool) {
	var permissions, offset, device, inode string
	read, err := fmt.Sscanf(line, "%x-%x %s %s %s %s", &begin, &end, &permissions, &offset, &device, &inode)
	if err != nil || read != 6 || !strings.HasSuffix(line, " "+file) {
		return 0, 0, false
	}
	return begin, end, !strings.Contains(permissions, "w")
}
