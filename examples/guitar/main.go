// Command guitar reviews guitars: whenever there is one that has not been
// reviewed, it is, and says so.
//
// What is thought of which brand stands in review.go; this file makes a controller
// of it.
package main

import (
	"context"
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
)

// Guitar is an instrument about which somebody has an opinion.
type Guitar struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec GuitarSpec `json:"spec"`
}

// GuitarSpec is what the guitar is and what the review says of it.
type GuitarSpec struct {
	Brand   string `json:"brand,omitempty"`
	Review  bool   `json:"review,omitempty"`
	Comment string `json:"comment,omitempty"`
}

//go:embed crd.yaml
var crd []byte

func main() { newApp().Main() }

// newApp is the whole controller: the kind, and what is done about its objects.
func newApp() *setpoint.App {
	app := setpoint.New("guitar")
	app.InstallCRDs(crd)

	guitars := setpoint.For[Guitar](app)
	unreviewed := setpoint.When(func(_, g *Guitar) bool { return !g.Spec.Review })
	guitars.OnCreate("review", review, unreviewed)
	guitars.OnUpdate("review", review, setpoint.Field("spec.review"))
	return app
}

// review writes what is thought of a guitar into it.
func review(_ context.Context, c *setpoint.Call[Guitar]) error {
	guitar := &c.Object.Spec
	guitar.Comment, guitar.Review = opinion(guitar.Brand), true
	c.Event("Reviewed", "%s", guitar.Comment)
	c.Log.Info("reviewed", "brand", guitar.Brand, "comment", guitar.Comment)
	return nil
}
