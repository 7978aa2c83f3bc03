// Package js has the package setpoint for JavaScript and TypeScript, which `setpoint init` adds to new operators.
//
// It imports nothing; package scaffold reads it.
package js

import "embed"

// Files are the files of the package, without its tests.
//
//go:embed *.js *.d.ts package.json wire.schema.json
var Files embed.FS
