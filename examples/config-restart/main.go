// Command config-restart has pods come back with their new configuration when the
// data of an annotated ConfigMap changes.
//
// All it does stands in the package configrestart; this makes a program of it. Its
// flags are those of every App: --help lists them.
package main

import (
	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/controllers/configrestart"
)

func main() { newApp().Main() }

func newApp() *setpoint.App {
	app := setpoint.New("config-restart")
	configrestart.Add(app, configrestart.Options{})
	return app
}
