package access

import (
	"fmt"
	"net/http"
	"strings"
)

// policy is what pages may do: nothing is loaded from another host, no script or style
// is part of a page, and no other site shows one.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// CheckWrite refuses a write that may come from another site, with ErrForged: it has
// to have the origin of the window and the CSRF token of the visitor. One of which the
// form cannot be read is refused with ErrUnread.
func (g *Gate) CheckWrite(r *http.Request, v *Visitor) error {
	if g.origin.Check(r) != nil {
		return ErrForged
	}
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnread, err)
	}
	given := r.Header.Get("X-Csrf-Token")
	if given == "" {
		given = r.PostForm.Get("csrf")
	}
	if !v.owns(given) {
		return ErrForged
	}
	return nil
}

// Assets is the path below which nothing is private.
const Assets = "/assets/"

// Protect adds what browsers have to know about all answers. A window that is open
// answers nobody who does not ask for loopback.
func (g *Gate) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		if !strings.HasPrefix(r.URL.Path, Assets) {
			h.Set("Cache-Control", "no-store")
		}
		if g.options.Open && !isLoopback(r.Host) {
			http.Error(w, errNotLoopback.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
