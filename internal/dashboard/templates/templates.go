// Package templates has the templates of the pages, and what several of them share in parts.
package templates

import "embed"

// Files are the templates.
//
//go:embed *.html parts
var Files embed.FS
