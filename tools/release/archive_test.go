package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Go's reader accepts an archive without its end; tar does not.
func TestArchiveIsComplete(t *testing.T) {
	entries := []entry{{"bin/", nil, 0o755}, {"bin/a", []byte("some bytes"), 0o755}, {"empty", nil, 0o644}}
	data := must(newTar(entries, time.Unix(0, 0)))(t)
	dir := t.TempDir()
	unpack := exec.Command("tar", "-x", "-f", "-", "-C", dir)
	unpack.Stdin = bytes.NewReader(data)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	for _, e := range entries[1:] {
		got, err := os.ReadFile(filepath.Join(dir, e.name))
		if err != nil || !bytes.Equal(got, e.data) {
			t.Errorf("%s: %q, %v", e.name, got, err)
		}
	}
}
