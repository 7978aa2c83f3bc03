package process

import (
	"os"
	"testing"
)

func TestIsProgram(t *testing.T) {
	for stat, want := range map[string]bool{
		"12 (sleep) S 1 12 12 0 -1 4194560 100 0":     true,
		"12 (a) b (c)) R 1 12 12 0 -1 4194560 100 0":  true,
		"12 (sleep) Z 1 12 12 0 -1 4194560 100 0":     false,
		"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0":     false,
		"3 (kworker/0:0) I 2 0 0 0 -1 69238880 0 0 0": false,
		"": false,
	} {
		if got := isProgram([]byte(stat)); got != want {
			t.Errorf("%q: %v, want %v", stat, got, want)
		}
	}
	if executing(os.Getpid()) {
		t.Error("this process has arguments")
	}
}
