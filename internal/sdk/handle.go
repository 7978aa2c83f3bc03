// Package sdk implements package setpoint: the controllers of a program, what they declare and compile to, and how the
// program runs them. Its types have no type parameters: functions of authors come as functions of JSON.
package sdk

// Handle is embedded in setpoint.App, so that Of has access to the implementation although the App exports none.
type Handle struct{ app *App }

// NewHandle returns the handle of an app.
func NewHandle(app *App) Handle { return Handle{app} }

func (h Handle) implementation() *App { return h.app }

// Of returns the implementation of a *setpoint.App. No other type has the method that the Handle gives to it.
func Of(app interface{ implementation() *App }) *App { return app.implementation() }
