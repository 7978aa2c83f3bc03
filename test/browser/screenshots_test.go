package browser

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// pictures is where TestPictures writes its files.
var pictures = flag.String("pictures", "", "`folder` for the pictures of docs")

// maxPicture is the maximum size of a picture in docs.
const maxPicture = 300_000

// TestPictures takes the pictures of docs for `make screenshots`, with all examples running.
func TestPictures(t *testing.T) {
	t.Parallel()
	p := newPage(t, sharedUI())
	container := "/resources/immortalcontainers.immortalcontainers.flugel.it/default/example"
	controller := "/controllers/setpoint/compositecontroller.metacontroller.k8s.io~immortalcontainers-controller"
	for _, each := range []struct{ name, path, scheme, text string }{
		{"overview-light", "/", "light", "guitar"},
		{"overview-dark", "/", "dark", "guitar"},
		{"controller-light", controller, "light", "example"},
		{"controller-dark", controller, "dark", "example"},
		{"object", container, "light", "example-immortalpod"},
		{"guitars", guitarsPath, "light", "stratocaster"},
		{"form", "/resources/immortalcontainers.immortalcontainers.flugel.it/new", "light", "image"},
	} {
		p.scheme(each.scheme)
		p.open(each.path)
		p.see(each.text)
		p.savePicture(each.name, p.screenshot())
	}
}

// savePicture writes a compressed picture without loss.
func (p *page) savePicture(name string, picture []byte) {
	p.t.Helper()
	decoded := valueOf(png.Decode(bytes.NewReader(picture)))(p.t)
	if size := decoded.Bounds().Size(); size.X != desktopWidth || size.Y != desktopHeight {
		p.t.Errorf("%s is %v", name, size)
	}
	if len(picture) > maxPicture {
		p.t.Errorf("%s has %d bytes, more than %d", name, len(picture), maxPicture)
	}
	folder := *pictures
	if folder == "" {
		folder = p.t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		p.t.Error(err)
	}
}
