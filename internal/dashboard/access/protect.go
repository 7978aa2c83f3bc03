package access

import (
	"fmt"
	"net/http"
	"strings"
)

// contentSecurityPolicy is what pages may do: nothing is loaded from another host, no script or style
// is part of a page, and no other site shows one.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// CheckWrite refuses a write that may come from another site, with ErrCrossSite: it has
// to have the origin of the window and the CSRF token of the visitor. One of which the
// form cannot be read is refused with ErrBadForm.
func (g *Authenticator) CheckWrite(r *http.Request, v *Identity) error {
	if g.origin.Check(r) != nil {
		return ErrCrossSite
	}
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadForm, err)
	}
	given := r.Header.Get("X-Csrf-Token")
	if given == "" {
		given = r.PostForm.Get("csrf")
	}
	if !v.hasToken(given) {
		return ErrCrossSite
	}
	return nil
}

// AssetsPath is the path below which nothing is private.
const AssetsPath = "/assets/"

// Protect adds what browsers have to know about all answers. A window that is open
// answers nobody who does not ask for loopback.
func (g *Authenticator) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		if !strings.HasPrefix(r.URL.Path, AssetsPath) {
			h.Set("Cache-Control", "no-store")
		}
		if g.options.Open && !isLoopback(r.Host) {
			http.Error(w, errNotLoopback.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
