package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	registry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/setpoint-dev/setpoint/tools/release/install"
)

// TestRelease makes a release twice, in folders of different names, and runs the image.
func TestRelease(t *testing.T) {
	first := makeRelease(t, "../..")
	t.Run("two releases are equal", func(t *testing.T) {
		clone := filepath.Join(t.TempDir(), "elsewhere", "clone")
		runCommand(t, "git", "clone", "--quiet", "--no-hardlinks", "../..", clone)
		// Changes that are not committed yet are part of both.
		runCommand(t, "sh", "-c", "cd ../.. && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - | tar -xf - -C "+clone)
		second := makeRelease(t, clone)
		for _, name := range []string{"SHA256SUMS", "provenance.intoto.json"} {
			if diff := cmp.Diff(readFile(t, first, name), readFile(t, second, name)); diff != "" {
				t.Errorf("%s: -first +second:\n%s", name, diff)
			}
		}
	})
	t.Run("the checksums are those of sha256sum", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
		cmd.Dir = first
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("the provenance is that of the files", func(t *testing.T) { testProvenance(t, first) })
	t.Run("it can be signed", func(t *testing.T) { testSigning(t, first) })
	t.Run("the image runs without rights", func(t *testing.T) { testImage(t, filepath.Join(first, "image")) })
	t.Run("the SBOM names all modules", func(t *testing.T) {
		sbom := readFile(t, first, "setpoint-1.2.3-linux-"+runtime.GOARCH+".spdx.json")
		for _, text := range []string{`"SPDX-2.3"`, `"pkg:golang/k8s.io/client-go@v0.37.2"`, `"pkg:golang/github.com/spf13/cobra@`, `"name": "stdlib"`} {
			if !strings.Contains(sbom, text) {
				t.Errorf("no %s in the SBOM", text)
			}
		}
	})
}

// makeRelease makes a release of the Linux binaries of a folder.
func makeRelease(t *testing.T, root string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dist")
	succeed(t, run(t.Context(), []string{"-root", root, "-o", dir, "-version", "1.2.3", "-platforms", "linux/amd64,linux/arm64"}))
	return dir
}

// testImage runs the program of the image of Setpoint.
func testImage(t *testing.T, folder string) {
	root, config := unpackImage(t, folder)
	const maxBytes = 62 << 20 // designs/0029-the-binary-of-a-cluster.md
	if size := must(os.Stat(filepath.Join(root, "setpoint")))(t).Size(); size > maxBytes {
		t.Errorf("the program has %d bytes, want at most %d", size, maxBytes)
	}
	if got := strings.Join(append(config.Entrypoint, config.Cmd...), " "); got != "/setpoint run" {
		t.Errorf("the image runs %s", got)
	}
	if out := runInside(t, root, config, "version"); !strings.Contains(out, "v1.2.3 (controller") {
		t.Errorf("setpoint version prints %s", out)
	}
}

// unpackImage checks an image and unpacks it below a folder.
func unpackImage(t *testing.T, folder string) (root string, config registry.Config) {
	t.Helper()
	path := must(layout.FromPath(folder))(t)
	outer := must(path.ImageIndex())(t)
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	image := imageFor(t, outer, runtime.GOARCH)
	file := must(image.ConfigFile())(t)
	if want := "65532:65532"; file.Config.User != want {
		t.Errorf("user %s, want %s", file.Config.User, want)
	}
	root = filepath.Join(t.TempDir(), "root")
	unpack(t, image, root)
	// The program finds CA certificates and time zones, and writes no file.
	for _, name := range []string{"etc/ssl/certs/ca-certificates.crt", "usr/share/zoneinfo/Europe/Berlin", "etc/passwd"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	return root, file.Config
}

// imageFor returns the image of a platform.
func imageFor(t *testing.T, index registry.ImageIndex, arch string) registry.Image {
	t.Helper()
	manifest := must(index.IndexManifest())(t)
	for _, m := range manifest.Manifests {
		if m.MediaType.IsIndex() {
			inner := must(index.ImageIndex(m.Digest))(t)
			return imageFor(t, inner, arch)
		}
		if m.Platform != nil && m.Platform.OS == "linux" && m.Platform.Architecture == arch {
			return must(index.Image(m.Digest))(t)
		}
	}
	t.Fatalf("no image for linux/%s in %v", arch, manifest.Manifests)
	return nil
}

// unpack writes the files of an image below a folder.
func unpack(t *testing.T, image registry.Image, root string) {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		succeed(t, err)
		path := filepath.Join(root, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			path = filepath.Join(path, ".")
		}
		succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = writeEntry(path, archive, header.FileInfo().Mode())
		}
		succeed(t, err)
	}
}

func writeEntry(path string, content io.Reader, mode os.FileMode) error {
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

// runInside runs the program of an image by chroot as its user, who can write nowhere but in /tmp. Other users than root use a user
// namespace for that.
func runInside(t *testing.T, root string, config registry.Config, args ...string) string {
	t.Helper()
	// The user of the image must reach the root, which is two folders below the test's own one.
	for _, folder := range []string{root, filepath.Dir(root), filepath.Dir(filepath.Dir(root))} {
		succeed(t, os.Chmod(folder, 0o755))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, config.Entrypoint[0], args...)
	cmd.Dir, cmd.Env = "/", config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: install.UserID, Gid: install.UserID, NoSetGroups: true}}
	if id := os.Geteuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: install.UserID, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: install.UserID, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestVersionsAreSemantic(t *testing.T) {
	for version, valid := range map[string]bool{
		"1.2.3": true, "0.0.0-20261122214021-e37518e41a2b": true, "1.2.3-rc.1": true,
		"v1.2.3": false, "1.2": false, "latest": false, "1.2.3+build": false, "01.2.3": false,
	} {
		if err := checkVersion(version); (err == nil) != valid {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestArchivesDependOnContentOnly(t *testing.T) {
	r := release{}
	one := must(newTar([]entry{{"b", []byte("2"), 0o644}, {"a/", nil, 0o755}, {"a/x", []byte("1"), 0o755}}, r.time))(t)
	two, err := newTar([]entry{{"a/x", []byte("1"), 0o755}, {"b", []byte("2"), 0o644}, {"a/", nil, 0o755}}, r.time)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("the order of the entries changes the archive (%v)", err)
	}
}

func runCommand(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

func readFile(t *testing.T, folder, name string) string {
	t.Helper()
	return string(must(os.ReadFile(filepath.Join(folder, name)))(t))
}

// must takes the results of a call, and ends the test with the error: must(os.ReadFile(path))(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		succeed(t, err)
		return value
	}
}

// succeed ends the test with an error, if there is one.
func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The folder of the artifacts is emptied, but only if it is one.
func TestFolderWithOtherFilesIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes.txt")
	succeed(t, os.WriteFile(notes, nil, 0o600))
	err := run(t.Context(), []string{"-root", "../..", "-install-only", "-o", dir})
	if err == nil || !strings.Contains(err.Error(), notes+" is not part of a release") {
		t.Error(err)
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}

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

// A node that imports the layout gives the image the name by which pods find it.
func TestLayoutHasTheNameOfTheImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, controller)
	succeed(t, os.WriteFile(program, []byte("a program"), 0o600))
	r := release{root: "../..", dir: dir, version: "1.2.3", time: time.Unix(0, 0)}
	var all []binary
	for _, name := range []string{"setpoint", controller} {
		all = append(all, binary{platform: platforms[0], name: name, path: program})
	}
	succeed(t, r.writeImage(all))
	index := must(layout.ImageIndexFromPath(filepath.Join(dir, "image")))(t)
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v, %v", manifest, err)
	}
	if name := manifest.Manifests[0].Annotations["io.containerd.image.name"]; name != "docker.io/library/setpoint:1.2.3" {
		t.Errorf("the name is %q", name)
	}
}

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
		"GOMODCACHE="+t.TempDir(), "GOBIN="+bin, "GOFLAGS="+goFlags, "CGO_ENABLED=0")
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

// testProvenance compares the subjects of the provenance with the checksums.
func testProvenance(t *testing.T, dist string) {
	var s statement
	succeed(t, json.Unmarshal([]byte(readFile(t, dist, "provenance.intoto.json")), &s))
	var sums strings.Builder
	for _, subject := range s.Subject {
		sums.WriteString(subject.Digest["sha256"] + "  " + subject.Name + "\n")
	}
	if diff := cmp.Diff(readFile(t, dist, "SHA256SUMS"), sums.String()); diff != "" {
		t.Errorf("-SHA256SUMS +subjects of the provenance:\n%s", diff)
	}
	head := strings.TrimSpace(output(t, exec.Command("git", "rev-parse", "HEAD")))
	if got := s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != head {
		t.Errorf("the provenance names commit %s, want %s", got, head)
	}
	var predicate provenance
	succeed(t, json.Unmarshal([]byte(readFile(t, dist, "provenance.predicate.json")), &predicate))
	if diff := cmp.Diff(s.Predicate, predicate); diff != "" {
		t.Errorf("-predicate of the statement +provenance.predicate.json:\n%s", diff)
	}
}

// stub stands in for cosign and crane: it records its arguments and requires the files that they name.
const stub = `#!/bin/sh
set -eu
echo "$(basename "$0") $*" >>"$RECORD"
case "$1" in
push) test -s "$2/index.json"; echo "${3%:*}@sha256:$PUSHED" ;;
attest) test -s provenance.predicate.json ;;
sign-blob) for file; do :; done; test -s "$file" ;;
esac
`

// testSigning runs sign.sh with stubs of cosign and crane.
func testSigning(t *testing.T, dist string) {
	index := must(layout.ImageIndexFromPath(filepath.Join(dist, "image")))(t)
	manifest := must(index.IndexManifest())(t)
	built := manifest.Manifests[0].Digest.Hex
	other := strings.Repeat("0", 64)
	const image = "registry.example.com/setpoint"
	signed := `crane push image IMAGE:1.2.3
cosign sign --yes --key my.key --recursive IMAGE@sha256:DIGEST
cosign attest --yes --key my.key --type slsaprovenance1 --predicate provenance.predicate.json IMAGE@sha256:DIGEST
cosign sign-blob --yes --key my.key --bundle SHA256SUMS.sigstore.json SHA256SUMS
cosign sign-blob --yes --key my.key --bundle provenance.intoto.json.sigstore.json provenance.intoto.json
`
	for name, c := range map[string]struct {
		uncommitted    string
		damage         string
		pushed         string
		record, reason string
	}{
		"a release":       {pushed: built, record: signed},
		"a changed file":  {damage: "setpoint-alerts.yaml", pushed: built, reason: "differ from SHA256SUMS"},
		"changed sources": {uncommitted: "true", pushed: built, reason: "not committed"},
		"another image":   {pushed: other, record: "crane push image IMAGE:1.2.3\n", reason: "the registry has another image: IMAGE@sha256:" + other},
	} {
		t.Run(name, func(t *testing.T) {
			folder, record := copyOf(t, dist), filepath.Join(t.TempDir(), "record")
			setUncommitted(t, folder, c.uncommitted)
			if c.damage != "" {
				succeed(t, os.WriteFile(filepath.Join(folder, c.damage), []byte("?"), 0o600))
			}
			cmd := exec.CommandContext(t.Context(), "./sign.sh", folder, image)
			cmd.Env = append(os.Environ(), "PATH="+stubs(t)+":"+os.Getenv("PATH"), "RECORD="+record, "PUSHED="+c.pushed, "COSIGN_KEY=my.key")
			out, err := cmd.CombinedOutput()
			names := strings.NewReplacer("IMAGE", image, "DIGEST", built)
			if (err == nil) != (c.reason == "") || !strings.Contains(string(out), names.Replace(c.reason)) {
				t.Errorf("%v: %s, want %q", err, out, c.reason)
			}
			did, _ := os.ReadFile(record) // There is none if nothing was called.
			if diff := cmp.Diff(names.Replace(c.record), string(did)); diff != "" {
				t.Errorf("-want +called:\n%s", diff)
			}
		})
	}
}

// stubs returns a folder with stand-ins for cosign and crane.
func stubs(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"cosign", "crane"} {
		succeed(t, os.WriteFile(filepath.Join(folder, name), []byte(stub), 0o700))
	}
	return folder
}

// setUncommitted makes the provenance say whether the sources had changes. The sources under test may
// have some.
func setUncommitted(t *testing.T, dist, value string) {
	t.Helper()
	if value == "" {
		value = "false"
	}
	text := readFile(t, dist, "provenance.intoto.json")
	for _, now := range []string{"true", "false"} {
		text = strings.ReplaceAll(text, `"uncommittedChanges": `+now, `"uncommittedChanges": `+value)
	}
	succeed(t, os.WriteFile(filepath.Join(dist, "provenance.intoto.json"), []byte(text), 0o600))
}

// copyOf copies a folder.
func copyOf(t *testing.T, folder string) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "dist")
	succeed(t, os.CopyFS(target, os.DirFS(folder)))
	return target
}
