// Command guitar reviews guitars that have no review, and records an event.
//
// review.go has the opinions; this file has the controller.
package main

import (
	"context"
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
)

// Guitar is an instrument with a review.
type Guitar struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec GuitarSpec `json:"spec"`
}

// GuitarSpec has the guitar and its review.
type GuitarSpec struct {
	Brand   string `json:"brand,omitempty"`
	Review  bool   `json:"review,omitempty"`
	Comment string `json:"comment,omitempty"`
}

//go:embed crd.yaml
var crd []byte

func main() { newApp().Main() }

func newApp() *setpoint.App {
	app := setpoint.New("guitar")
	app.InstallCRDs(crd)

	guitars := setpoint.For[Guitar](app)
	unreviewed := setpoint.When(func(_, g *Guitar) bool { return !g.Spec.Review })
	guitars.OnCreate("review", review, unreviewed)
	guitars.OnUpdate("review", review, setpoint.Field("spec.review"))
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
