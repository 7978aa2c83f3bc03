// Package python has the Python package of operators, for the binary.
//
// The folders beside this file are the package setpoint and the module kopf. Package operator
// extracts them and starts the author's interpreter with them.
package python

import "embed"

// Package has the folders setpoint and kopf, without tests.
//
//go:embed setpoint/*.py setpoint/*/*.py kopf/*.py
var Package embed.FS
