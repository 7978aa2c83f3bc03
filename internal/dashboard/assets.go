package dashboard

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

// assets are the static files of the dashboard by name, such as "app.css".
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

// url returns the URL of a file. It contains a hash of the content, so that browsers may cache
// the file forever.
func (a assets) url(name string) string { return "/assets/" + a[name].hash + "/" + name }

func serveAsset(req *request) error {
	found, known := req.assets[req.path("file")]
	if !known || found.hash != req.path("hash") {
		return pageNotFound(req)
	}
	req.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	req.w.Header().Set("Content-Type", found.mediaType)
	return req.write(http.StatusOK, found.data, true)
}

func serveFavicon(req *request) error {
	http.Redirect(req.w, req.r, req.assets.url("favicon.svg"), http.StatusFound)
	return nil
}
