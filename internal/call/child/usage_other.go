//go:build !linux

package child

import "time"

// usage is not known: only Linux has /proc.
func usage(int) (memory int64, cpu time.Duration) { return 0, 0 }
