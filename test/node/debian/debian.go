// Package debian unpacks Debian's packages into folders. It installs nothing: the lists and the packages have a folder of their
// own, and no script of a package runs.
package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Packages are unpacked together.
type Packages struct {
	Folder string
	Names  []string
	// System includes everything that they depend on, for a root of its own. Otherwise what is installed here is left out.
	System bool
	// Links are those that scripts of the packages would make: the path of each and what it leads to, in the same folder. Those that
	// lead to nothing are left out.
	Links map[string]string
}

// contents is the file in an unpacked folder that says what was asked for.
const contents = ".packages"

// Unpack unpacks all packages whose folder does not have them. The cache is a folder for apt.
func Unpack(ctx context.Context, all []Packages, cache string, progress io.Writer) error {
	missing := slices.DeleteFunc(slices.Clone(all), Packages.areThere)
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintln(progress, "reading the lists of Debian's packages")
	if err := apt(ctx, cache, "update"); err != nil {
		return err
	}
	for _, p := range missing {
		fmt.Fprintf(progress, "unpacking %s\n", strings.Join(p.Names, ", "))
		if err := p.unpack(ctx, cache); err != nil {
			return fmt.Errorf("unpack %s: %w", strings.Join(p.Names, ", "), err)
		}
	}
	return nil
}

func (p Packages) areThere() bool {
	have, err := os.ReadFile(filepath.Join(p.Folder, contents))
	return err == nil && string(have) == p.wanted()
}

func (p Packages) wanted() string { return fmt.Sprintln(p.Names, p.System, p.Links) }

func (p Packages) unpack(ctx context.Context, cache string) error {
	files, err := p.download(ctx, cache)
	if err != nil {
		return err
	}
	if err := p.makeFolder(); err != nil {
		return err
	}
	for _, file := range files {
		// dpkg-deb --extract would put folders in the place of links.
		const extract = `dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"`
		if err := run(ctx, "sh", "-c", extract, "sh", file, p.Folder); err != nil {
			return err
		}
	}
	for path, target := range p.Links {
		path = filepath.Join(p.Folder, path)
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(p.Folder, contents), []byte(p.wanted()), 0o644)
}

// makeFolder makes the folder anew. What packages have in /bin, /lib and /sbin goes below /usr, as on an installed system.
func (p Packages) makeFolder() error {
	if err := os.RemoveAll(p.Folder); err != nil {
		return err
	}
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.MkdirAll(filepath.Join(p.Folder, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(p.Folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// download returns the files of the packages.
func (p Packages) download(ctx context.Context, cache string) ([]string, error) {
	archives := filepath.Join(cache, "archives")
	if err := os.RemoveAll(archives); err != nil {
		return nil, err
	}
	args := append([]string{"--download-only", "--no-install-recommends", "install"}, p.Names...)
	if p.System {
		none := filepath.Join(cache, "nothing-is-installed")
		if err := os.WriteFile(none, nil, 0o644); err != nil {
			return nil, err
		}
		args = append(args, "-o", "Dir::State::Status="+none)
	}
	if err := apt(ctx, cache, args...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(archives, "*.deb"))
}

// apt keeps everything that it downloads in the cache, and needs no lock of the system.
func apt(ctx context.Context, cache string, args ...string) error {
	for _, dir := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(cache, dir), 0o755); err != nil {
			return err
		}
	}
	return run(ctx, "apt-get", append([]string{
		"-qq", "-y", "-o", "Dir::State::Lists=" + filepath.Join(cache, "lists"), "-o", "Dir::Cache=" + cache,
		"-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1",
	}, args...)...)
}

func run(ctx context.Context, name string, args ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, output.String())
	}
	return nil
}
