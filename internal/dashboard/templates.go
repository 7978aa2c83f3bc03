package dashboard

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
)

//go:embed templates
var templateFiles embed.FS

// pages are the page templates by name. Each includes the blocks of layout.html and of
// templates/parts.
type pages map[string]*template.Template

func parsePages(functions template.FuncMap) (pages, error) {
	shared, err := template.New("").Option("missingkey=error").Funcs(functions).
		ParseFS(templateFiles, "templates/layout.html", "templates/parts/*.html")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := pages{}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" {
			continue
		}
		clone, err := shared.Clone()
		if err != nil {
			return nil, err
		}
		if all[name], err = clone.ParseFS(templateFiles, file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return all, nil
}
