// Command guitar reviews guitars that have no review, and records an event.
//
// review.go has the opinions; this file has the kind and the controller.
//
// +groupName=kool.karmalabs.local
// +versionName=v1
package main

import (
	"context"
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/dashboard"
)

//go:generate go tool -modfile=../../tools/go.mod controller-gen crd paths=. output:crd:dir=.

// Guitar is an instrument with a review.
//
// +kubebuilder:resource:shortName=guit
// +kubebuilder:printcolumn:name="Brand",type=string,JSONPath=`.spec.brand`
// +kubebuilder:printcolumn:name="Review",type=boolean,JSONPath=`.spec.review`
// +kubebuilder:printcolumn:name="Comment",type=string,JSONPath=`.spec.comment`
type Guitar struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata"`

	// +optional
	Spec GuitarSpec `json:"spec"`
}

// GuitarSpec has the guitar and its review.
type GuitarSpec struct {
	// brand is who built it.
	// +optional
	Brand string `json:"brand,omitempty"`

	// review says whether it has a review. Remove it for another one.
	// +optional
	Review bool `json:"review,omitempty"`

	// comment is the review.
	// +optional
	Comment string `json:"comment,omitempty"`
}

//go:embed kool.karmalabs.local_guitars.yaml
var crd []byte

func main() { newApp().Main() }

func newApp() *setpoint.App {
	app := setpoint.New("guitar")
	app.InstallCRDs(crd)
	app.UseDashboard(&dashboard.Options{})

	guitars := setpoint.For[Guitar](app)
	unreviewed := setpoint.When(func(_, g *Guitar) bool { return !g.Spec.Review })
	guitars.Handle("review", review, unreviewed, setpoint.Field("spec.review")).OnCreate().OnUpdate()
	return app
}

// review writes the review of a guitar.
func review(_ context.Context, c *setpoint.Call[Guitar]) error {
	guitar := &c.Object.Spec
	guitar.Comment, guitar.Review = opinion(guitar.Brand), true
	c.Event("Reviewed", "%s", guitar.Comment)
	c.Log.Info("reviewed", "brand", guitar.Brand, "comment", guitar.Comment)
	return nil
}
