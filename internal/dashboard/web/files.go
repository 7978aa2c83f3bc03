package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"path"
	"strings"
)

// Templates are those of the pages by name. Each includes the blocks of layout.html and of parts.
type Templates map[string]*template.Template

// ParseTemplates parses the files of package templates.
func ParseTemplates(files fs.FS, functions template.FuncMap) (Templates, error) {
	shared, err := template.New("").Option("missingkey=error").Funcs(functions).
		ParseFS(files, "layout.html", "parts/*.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*.html")
	if err != nil {
		return nil, err
	}
	all := Templates{}
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" {
			continue
		}
		clone, err := shared.Clone()
		if err != nil {
			return nil, err
		}
		if all[name], err = clone.ParseFS(files, file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return all, nil
}

// Assets are the static files of the dashboard by name, such as "app.css".
type Assets map[string]asset

type asset struct {
	hash, mediaType string
	Data            []byte
}

// LoadAssets reads the files of the folder assets.
func LoadAssets(files fs.FS) (Assets, error) {
	all := Assets{}
	return all, fs.WalkDir(files, "assets", func(file string, entry fs.DirEntry, err error) error {
		mediaType := mime.TypeByExtension(path.Ext(file))
		if err != nil || entry.IsDir() || path.Ext(file) == ".md" || mediaType == "" {
			return err
		}
		data, err := fs.ReadFile(files, file)
		sum := sha256.Sum256(data)
		all[strings.TrimPrefix(file, "assets/")] = asset{hash: hex.EncodeToString(sum[:8]), mediaType: mediaType, Data: data}
		return err
	})
}

// Link returns the URL of a file. It contains a hash of the content, so that browsers may cache the file forever.
func (a Assets) Link(name string) string { return "/assets/" + a[name].hash + "/" + name }
