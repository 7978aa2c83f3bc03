package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// makeProgramImage makes the image of a Go program, such as an operator made with the SDK.
func (r *release) makeProgramImage(ctx context.Context) error {
	name, err := r.programName(ctx)
	if err != nil {
		return fmt.Errorf("-image: %w", err)
	}
	var all []binary
	for _, p := range r.platforms {
		if p.os == "linux" {
			all = append(all, binary{p, name, filepath.Join(r.dir, "bin", p.String(), name), r.root, r.program,
				[]string{"-ldflags", "-s -w"}})
		}
	}
	if len(all) == 0 {
		return errors.New("-image: images are for Linux, and -platforms names no Linux platform")
	}
	if err := compileAll(ctx, all); err != nil {
		return err
	}
	return r.writeImage(all)
}

// programName returns the name of the program: the last part of its import path.
func (r *release) programName(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "-C", r.root, "list", "-f", "{{.Name}} {{.ImportPath}}", r.program).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	kind, importPath, _ := strings.Cut(lines[0], " ")
	if len(lines) != 1 || kind != "main" {
		return "", fmt.Errorf("%s is not one package main", r.program)
	}
	return path.Base(importPath), nil
}
