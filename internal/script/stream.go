package script

import (
	"fmt"
	"os"
	"syscall"
)

// openStream makes a pipe one that Go's poller watches: waiting for it takes no thread, so that the end of stdin is seen while
// code runs in a loop without end.
func openStream(f *os.File) (*os.File, error) {
	fd := int(f.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
