// Package setpoint is the front door for Go programs: the SDK with which an
// operator is written as functions.
//
//	app := setpoint.New("exchangerates")
//	app.Define(crd)                             // a CRD, ensured at the start
//	rates := setpoint.For[v1.ExchangeRate](app) // its objects, typed
//	rates.Owns(&corev1.ConfigMap{})             // what belongs to them
//	rates.OnCreate(publish)
//	rates.OnUpdate(publish, setpoint.Field("spec.currency"))
//	rates.OnDrift(publish)
//	rates.Every(time.Hour, publish)
//	app.Main()
//
// A handler does something about what happened to one object. It changes the
// object that it is given, says what to apply and to delete, and returns; the
// runtime writes it, remembers what each handler has dealt with, and tries again
// what fails:
//
//	func publish(ctx context.Context, c *setpoint.Call[v1.ExchangeRate]) error {
//		rate, err := fetch(ctx, c.Object.Spec.Currency)
//		if err != nil {
//			return err // again, after a backoff
//		}
//		c.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": rate}})
//		c.Object.Status.Rate = rate
//		return nil
//	}
//
// Where things are to be in a certain way, whatever happens, Compose takes a
// function from a parent and its children as they are to what they should be.
//
// What is to be said before an object is stored, For takes too: Mutate and Validate.
//
// What lives here: the types and functions a Go program names to describe a
// controller and to run it. What must not: the loops and the API machinery, which
// are rooms under internal/, or anything that a webhook written in another
// language could not do as well.
//
// Who calls: programs outside this repository, the bundled controllers under
// controllers/, and the examples. Nothing below this floor imports it. The package
// setpointtest calls handlers by hand, in tests; controlplane/apptest, of a module
// apart, runs whole apps in them.
package setpoint
