//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The program is this one, if it is called with a folder.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// What is missing is said in one sentence. Each machine lacks one thing, in a mount namespace of its own.
func TestNeeds(t *testing.T) {
	for lacks, c := range map[string]struct{ prepare, want string }{
		"nothing": {"", ""},
		"root":    {"exec setpriv --reuid 65534 --clear-groups", "root, and this is user 65534: run it with sudo"},
		"Debian":  {"mount --bind /dev/null /etc/os-release;", "Debian's packages, and /etc/os-release does not name Debian"},
		"memory":  {"echo MemAvailable: 1048576 kB >/mnt/meminfo; mount --bind /mnt/meminfo /proc/meminfo;", "1.5 GB of memory, and 1.0 GB are free"},
		"disk":    {"mount -t tmpfs -o size=1G none /mnt;", "3.0 GB of disk at /mnt, and 1.0 GB are free"},
		"cgroups": {"mount -t tmpfs none /sys/fs/cgroup;", "the cgroup controller cpu, and it is not mounted below /sys/fs/cgroup"},
		"overlay": {"mount -o remount,ro /mnt;", "namespaces and overlayfs on /mnt: "},
	} {
		t.Run(lacks, func(t *testing.T) {
			const room = "mount -t tmpfs none /srv; cp $0 /srv/need; mount -t tmpfs -o size=4G none /mnt; PATH=/srv:$PATH; "
			output, err := exec.Command("unshare", "--mount", "sh", "-c", room+c.prepare+" need /mnt", os.Args[0]).CombinedOutput()
			said, found := strings.CutPrefix(string(output), "a real node needs "+c.want)
			if (err == nil) != (c.want == "") || c.want != "" && (!found || strings.Count(said, "\n") != 1) {
				t.Errorf("%v: %q", err, output)
			}
		})
	}
}
