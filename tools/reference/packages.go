package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// foldersWithPackages hold what is shipped.
func foldersWithPackages() []string {
	return []string{"api", "cmd", "config", "controllers", "controlplane", "dashboard", "hook", "internal", "js", "python", "setpointtest"}
}

// writePackages lists the packages of the product with the first sentences of their comments.
func writePackages(root string, parts map[string]string, problems *problems) error {
	packages := map[string]goPackage{}
	for _, folder := range append(foldersWithPackages(), ".") {
		if err := readPackages(root, folder, packages); err != nil {
			return err
		}
	}
	var table strings.Builder
	table.WriteString("| package | |\n|---|---|\n")
	for _, dir := range keys(packages) {
		sentence := packages[dir].sentence
		if sentence == "" {
			problems.add("%s has no package comment", dir)
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", dir, cell(sentence))
	}
	parts["packages"] = table.String()
	parts["picture"] = picture(packages, problems)
	return nil
}

var startOfComment = regexp.MustCompile(`^(?:Package|Command) [\w-]+,? `)

// readPackages adds the packages of a folder.
func readPackages(root, folder string, packages map[string]goPackage) error {
	start := filepath.Join(root, folder)
	return filepath.WalkDir(start, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != start && (folder == "." || slices.Contains([]string{"testdata", "templates", "node_modules"}, entry.Name())) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		p := packages[dir]
		packages[dir] = goPackage{p.sentence + synopsis(syntax), append(p.imports, importsOf(syntax)...)}
		return nil
	})
}

func synopsis(file *ast.File) string {
	sentence := new(doc.Package).Synopsis(file.Doc.Text())
	return strings.TrimRight(startOfComment.ReplaceAllString(sentence, ""), ".:")
}

const module = "github.com/setpoint-dev/setpoint"

// importsOf returns the folders of the packages of this module that a file imports.
func importsOf(file *ast.File) (dirs []string) {
	for _, spec := range file.Imports {
		switch name := strings.Trim(spec.Path.Value, `"`); {
		case name == module:
			dirs = append(dirs, ".")
		case strings.HasPrefix(name, module+"/"):
			dirs = append(dirs, strings.TrimPrefix(name, module+"/"))
		}
	}
	return dirs
}
