package setpoint

import (
	"github.com/setpoint-dev/setpoint/internal/sdk"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// KindOption configures For and Compose.
type KindOption interface{ applyToKind(*sdk.Controller) }

// Option configures a kind, a handler or an admission webhook.
type Option interface {
	KindOption
	CallOption
}

// kindOption lets functions be options, and anyOption is an Option.
type (
	kindOption func(*sdk.Controller)
	anyOption  struct {
		kindOption
		callOption
	}
)

func (o kindOption) applyToKind(c *sdk.Controller) { o(c) }

func applyToKind(c *sdk.Controller, options []KindOption) {
	for _, o := range options {
		o.applyToKind(c)
	}
}

// Kind sets the kind of the objects, such as Kind("apps/v1", "Deployment"). It is
// required for Unstructured, and for types that are not named after their kind.
func Kind(apiVersion, name string) KindOption {
	return kindOption(func(c *sdk.Controller) { c.Kind = kinds.Kind{APIVersion: apiVersion, Name: name} })
}

// Name names a controller, if the app has several for one kind. The default is its kind.
func Name(name string) KindOption {
	return kindOption(func(c *sdk.Controller) { c.Name = name })
}

// Labels selects objects by a label selector, such as "app=web,tier!=cache". On a kind,
// the API server applies it. On an admission webhook, and on its kind, the old or the new
// object must match.
func Labels(selector string) Option {
	return anyOption{
		func(c *sdk.Controller) { c.Labels = selector },
		callOption{
			func(h *sdk.Handler) { h.FilterLabels(selector) },
			func(w *sdk.Webhook) { w.Labels = append(w.Labels, selector) },
		},
	}
}

// FieldSelector selects objects by a field selector, such as "status.phase=Running", as
// far as the API server supports it for the kind. The API server applies it.
func FieldSelector(selector string) KindOption {
	return kindOption(func(c *sdk.Controller) { c.Fields = selector })
}

// Namespaces limits a kind to objects in these namespaces, in addition to
// Options.Namespaces. Handlers write in these namespaces only.
func Namespaces(names ...string) KindOption {
	return kindOption(func(c *sdk.Controller) { c.Namespaces = append(c.Namespaces, names...) })
}

// Workers is the maximum number of concurrent reconciles of the kind. The default is that
// of Options.
func Workers(n int) KindOption {
	return kindOption(func(c *sdk.Controller) {
		c.Workers = n
		if n < 1 {
			c.AddProblem("Workers(%d): must be at least 1", n)
		}
	})
}
