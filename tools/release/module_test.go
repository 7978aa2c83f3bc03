package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// TestGoInstall installs the command of developers with `go install …@version`, from a
// module proxy of local files. A replace line in go.mod, or a file that the module lacks, would fail it.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	const path, version = "github.com/setpoint-dev/setpoint", "v1.2.3"
	proxy, bin := t.TempDir(), t.TempDir()
	writeModule(t, proxy, module.Version{Path: path, Version: version}, "../..")
	cached := filepath.Join(strings.TrimSpace(output(t, exec.Command("go", "env", "GOMODCACHE"))), "cache", "download")
	// Other modules come from the cache of this machine, where they have been verified. The checksum
	// database does not know these.
	env := append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+cached, "GOSUMDB=off", "GOWORK=off",
		"GOMODCACHE="+t.TempDir(), "GOBIN="+bin, "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	install := exec.CommandContext(t.Context(), "go", "install", "-modcacherw", path+"/cmd/setpoint@"+version)
	install.Dir, install.Env = t.TempDir(), env
	output(t, install)
	if out := output(t, exec.Command(filepath.Join(bin, "setpoint"), "version")); !strings.Contains(out, "setpoint v1.2.3 ") {
		t.Errorf("setpoint version prints %s", out)
	}
}

// writeModule puts a version of a module into a module proxy: what a tag of these sources would have.
func writeModule(t *testing.T, proxy string, version module.Version, root string) {
	t.Helper()
	var archive bytes.Buffer
	succeed(t, modzip.Create(&archive, version, sourceFiles(t, root)))
	folder := filepath.Join(proxy, filepath.FromSlash(version.Path), "@v")
	succeed(t, os.MkdirAll(folder, 0o755))
	for name, content := range map[string][]byte{
		"list":                    []byte(version.Version + "\n"),
		version.Version + ".info": fmt.Appendf(nil, `{"Version":%q}`, version.Version),
		version.Version + ".mod":  []byte(readFile(t, root, "go.mod")),
		version.Version + ".zip":  archive.Bytes(),
	} {
		succeed(t, os.WriteFile(filepath.Join(folder, name), content, 0o644))
	}
}

// sourceFiles lists the files that git has, or will have. Those of nested modules are left out when
// the archive is made.
func sourceFiles(t *testing.T, root string) []modzip.File {
	t.Helper()
	var files []modzip.File
	for name := range strings.SplitSeq(output(t, exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")), "\x00") {
		file := sourceFile{root: root, name: name}
		if info, err := file.Lstat(); err == nil && info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files
}

type sourceFile struct{ root, name string }

func (f sourceFile) Path() string                 { return f.name }
func (f sourceFile) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.name)) }
func (f sourceFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.name)) }

// output runs a command and returns what it prints.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", cmd.Args, err, &complaints)
	}
	return string(out)
}
