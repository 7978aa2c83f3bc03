// Package script has the hook of package webhook in the languages of inline hooks.
package script

import _ "embed"

// The sources.
var (
	//go:embed sync.js
	JavaScript string
	//go:embed sync.star
	Starlark string
)
