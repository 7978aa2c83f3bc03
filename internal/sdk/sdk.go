// Package sdk implements package setpoint. Package setpointtest and package apptest reach the implementation of an
// app by Of; authors do not.
package sdk

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
)

// App is what tests need of an app. The app must be valid: else all methods return its problems.
type App interface {
	// Handler returns the handler of a name, such as "publish", or "exchangerate/publish" if several kinds have one.
	Handler(name string) (hook.Handler, error)
	// Hook returns a function of Compose: "sync" or "finalize", or "team/sync" if the app composes several kinds.
	Hook(name string) (hook.Hook, error)
	// Reviewer returns the function of Mutate or Validate with a name, like Handler.
	Reviewer(name string) (hook.Admitter, error)
	// KindOf returns the kind of an object, from the object itself or from its type as in For.
	KindOf(o any) (apiVersion, kind string, err error)
	// FillIndexes fills the indexes of an app that is not running with objects, as JSON, until release is called.
	// Concurrent calls wait for each other. The options Labels and Namespaces of the kinds apply. It returns an error if
	// the app has no index of a kind.
	FillIndexes(objects ...json.RawMessage) (release func(), err error)
	// HandledBy returns the objects that the functions of Watches return for an object, as JSON, sorted and once each.
	// It returns an error if the app watches no objects of the kind.
	HandledBy(related json.RawMessage) ([]types.NamespacedName, error)
	// CRDs returns the texts of InstallCRDs.
	CRDs() [][]byte
	// Compile returns the controllers compiled for an environment.
	Compile(ctx context.Context, env compile.Environment) ([]*compile.Compiled, error)
}

// Handle is embedded in setpoint.App, so that Of has access to its implementation although the app exports none.
type Handle struct{ app App }

// NewHandle returns the handle of an app.
func NewHandle(app App) Handle { return Handle{app} }

func (h Handle) implementation() App { return h.app }

// Of returns the implementation of a *setpoint.App: no other type has the method that Handle gives to it.
func Of(app interface{ implementation() App }) App { return app.implementation() }
