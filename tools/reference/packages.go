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
	sentences := map[string]string{}
	for _, folder := range append(foldersWithPackages(), ".") {
		if err := readSynopses(root, folder, sentences); err != nil {
			return err
		}
	}
	var table strings.Builder
	table.WriteString("| package | |\n|---|---|\n")
	for _, dir := range keys(sentences) {
		if sentences[dir] == "" {
			problems.add("%s has no package comment", dir)
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", dir, cell(sentences[dir]))
	}
	parts["packages"] = table.String()
	return nil
}

var startOfComment = regexp.MustCompile(`^(?:Package|Command) [\w-]+,? `)

// readSynopses adds the packages of a folder, each with the first sentence of its comment, if it has one.
func readSynopses(root, folder string, sentences map[string]string) error {
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
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		sentences[dir] += synopsis(syntax)
		return nil
	})
}

func synopsis(file *ast.File) string {
	sentence := new(doc.Package).Synopsis(file.Doc.Text())
	return strings.TrimRight(startOfComment.ReplaceAllString(sentence, ""), ".:")
}
