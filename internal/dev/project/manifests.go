package project

import (
	"fmt"
	"os"
	"path/filepath"
)

// ForManifests returns the project of manifest files without a setpoint.yaml: one that applies
// them and runs no process.
func ForManifests(files []string) (*Project, error) {
	p := &Project{File: files[0]}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			return nil, fmt.Errorf("%s: no such file", file)
		}
		if filepath.Base(file) == FileName {
			return nil, fmt.Errorf("%s is no manifest; use its folder, %s", file, filepath.Dir(file))
		}
		absolute, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		p.Apply = append(p.Apply, absolute)
	}
	p.Dir = filepath.Dir(p.Apply[0])
	return p, nil
}

// HasFile reports whether the project has a setpoint.yaml.
func (p *Project) HasFile() bool { return filepath.Base(p.File) == FileName }

// Name returns what messages call the project: its folder, or its first file.
func (p *Project) Name() string {
	if p.HasFile() {
		return filepath.Dir(p.File)
	}
	return p.File
}
