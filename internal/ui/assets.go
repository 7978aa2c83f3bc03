package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var assetFiles embed.FS

// assets are the files that pages load, by name, such as "app.css".
type assets map[string]asset

type asset struct {
	hash, mediaType string
	data            []byte
}

func loadAssets() (assets, error) {
	all := assets{}
	return all, fs.WalkDir(assetFiles, "assets", func(file string, entry fs.DirEntry, err error) error {
		mediaType := mime.TypeByExtension(path.Ext(file))
		if err != nil || entry.IsDir() || path.Ext(file) == ".md" || mediaType == "" {
			return err
		}
		data, err := assetFiles.ReadFile(file)
		sum := sha256.Sum256(data)
		all[strings.TrimPrefix(file, "assets/")] = asset{hash: hex.EncodeToString(sum[:8]), mediaType: mediaType, data: data}
		return err
	})
}

// url is where a file is served. It changes with what is in the file, so that
// browsers may keep it for good.
func (a assets) url(name string) string { return "/assets/" + a[name].hash + "/" + name }

func serveAsset(v *visit) error {
	found, known := v.assets[v.path("file")]
	if !known || found.hash != v.path("hash") {
		return lost(v)
	}
	v.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	return v.serve(found)
}

func serveFavicon(v *visit) error {
	http.Redirect(v.w, v.r, v.assets.url("favicon.svg"), http.StatusFound)
	return nil
}

func (v *visit) serve(a asset) error {
	v.w.Header().Set("Content-Type", a.mediaType)
	return v.write(http.StatusOK, a.data, true)
}
