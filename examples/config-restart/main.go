// Command config-restart restarts pods when the data of an annotated ConfigMap changes.
//
// Package configrestart implements it. The flags are those of every App: see --help.
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
