package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file or folder of an archive; folders end in a slash.
type entry struct {
	name string
	data []byte
	mode int64
}

// entriesOf returns the entries of files below a folder.
func entriesOf(prefix string, files map[string][]byte) []entry {
	var all []entry
	for name, data := range files {
		all = append(all, entry{prefix + name, data, 0o644})
	}
	return all
}

// newTar returns a tar archive whose bytes depend on entries and time only.
func newTar(entries []entry, modified time.Time) ([]byte, error) {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: modified, Typeflag: tar.TypeReg,
			Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(e.data); err != nil {
			return nil, err
		}
	}
	// Close writes the end of the archive, so it comes before Bytes.
	err := archive.Close()
	return buffer.Bytes(), err
}

// writeArchive writes a compressed archive into the folder of the artifacts.
func (r *release) writeArchive(name string, entries []entry) error {
	data, err := newTar(entries, r.time)
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	var buffer bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := compressed.Write(data); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, name), buffer.Bytes(), 0o644)
}

// kubectlComplete is the program by which kubectl completes the plugin.
//
//go:embed kubectl_complete-setpoint
var kubectlComplete []byte

// archive packs each binary of users with the license, and with what kubectl needs to complete it as a plugin.
func (r *release) archive(binaries []binary) error {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	for _, b := range binaries {
		if b.name == controller {
			continue // It is in the image.
		}
		program, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%s-%s.tar.gz", b.name, r.version, b.platform)
		err = r.writeArchive(name, []entry{
			{"setpoint", program, 0o755}, {"kubectl_complete-setpoint", kubectlComplete, 0o755}, {"LICENSE", license, 0o644},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
