package format

import (
	"testing"
	"time"
)

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "now", 90 * time.Second: "90s", 3 * time.Minute: "3m", 5 * time.Hour: "5h", 72 * time.Hour: "3d",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%s) is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0", 850 * time.Microsecond: "850µs", 12300 * time.Microsecond: "12ms", 2 * time.Second: "2.0s"} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%s) is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{7: "7 B", 1500: "1.5 KB", 48_000_000: "48 MB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) is %q, want %q", n, got, want)
		}
	}
	if got := Count(1234567); got != "1,234,567" {
		t.Errorf("Count: %q", got)
	}
}
