package program

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
)

// find returns the path of a program and the directory that it is in. Its errors are those of the field
// command.
func (o *Opener) find(name string) (dir, file string, err error) {
	for _, dir = range o.Dirs {
		if file, err = findIn(dir, name); !errors.Is(err, fs.ErrNotExist) {
			return dir, file, err
		}
	}
	return "", "", fmt.Errorf("%s is not in %s; a program from elsewhere needs a script there that runs it",
		name, strings.Join(o.Dirs, ", "))
}

func findIn(dir, name string) (string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("the directory of programs: %w", err)
	}
	path := filepath.Join(root, name)
	if filepath.IsAbs(name) {
		path = filepath.Clean(name)
	}
	if within, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(within) {
		path = filepath.Join(root, within)
	}
	if !isIn(root, path) {
		return "", fmt.Errorf("%s leads out of %s", name, dir)
	}
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("%w", err)
	}
	if !isIn(root, file) {
		return "", fmt.Errorf("%s leads out of %s", name, dir)
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file", name)
	case info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return "", fmt.Errorf("%s runs as its owner (setuid or setgid), so Setpoint could not stop it; run: chmod ug-s '%s'", name, file)
	case info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable; run: chmod +x '%s'", name, path)
	}
	return path, nil
}

func isIn(dir, path string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}

// filesOf returns the files that a command names: a change of them restarts it.
func filesOf(dir, program string, args []string) []string {
	files := []string{program}
	for _, arg := range args {
		path := filepath.Join(dir, arg)
		if info, err := os.Stat(path); err == nil && filepath.IsLocal(arg) && info.Mode().IsRegular() {
			files = append(files, path)
		}
	}
	return files
}

// versionsOf returns what identifies the content of files without reading it; nil for one that does not exist.
func versionsOf(files []string) []fs.FileInfo {
	all := make([]fs.FileInfo, len(files))
	for i, file := range files {
		all[i], _ = os.Stat(file)
	}
	return all
}

func sameVersion(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}

// codeOf identifies the content of files.
func codeOf(files []string) call.Code {
	sum := sha256.New()
	for _, file := range files {
		fmt.Fprintf(sum, "\n%s\n", filepath.Base(file))
		if content, err := os.Open(file); err == nil {
			_, _ = io.Copy(sum, content) // What cannot be read is the same code as long as that lasts.
			_ = content.Close()
		}
	}
	return call.Code{Digest: hex.EncodeToString(sum.Sum(nil)), Since: time.Now()}
}

// files are those whose change restarts the program.
func (p *program) files() []string {
	extension := filepath.Ext(p.file)
	if !p.opener.WatchHelpers || extension == "" {
		return p.named
	}
	var helpers []string
	entries, _ := os.ReadDir(filepath.Dir(p.file)) // The next start says what is wrong with it.
	for _, entry := range entries {
		if path := filepath.Join(filepath.Dir(p.file), entry.Name()); filepath.Ext(path) == extension && !slices.Contains(p.named, path) {
			helpers = append(helpers, path)
		}
	}
	return slices.Concat(p.named, helpers)
}

// restartChanged lets new calls use new processes if a file has changed, and returns the code that they run.
func (p *program) restartChanged() call.Code {
	files := p.files()
	now := versionsOf(files)
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := !slices.EqualFunc(now, p.versions, sameVersion)
	if changed {
		p.versions = now
		p.pool.Restart()
	}
	if changed || p.code.Digest == "" {
		if code := codeOf(files); code.Digest != p.code.Digest {
			p.code = code
		}
	}
	return p.code
}
