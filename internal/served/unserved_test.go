package served

import "testing"

func TestGuess(t *testing.T) {
	for name, want := range map[string]string{
		"gadgets": "gadgets Gadget", "policies": "policies Policy", "classes": "classes Class", "boxes": "boxes Box",
		"Gadget": "gadgets Gadget", "NetworkPolicy": "networkpolicies NetworkPolicy", "": " ",
	} {
		if got := Guess("example.org/v1", name); got.Plural+" "+got.Kind != want || got.APIVersion() != "example.org/v1" || !got.Unserved {
			t.Errorf("%q: %+v, want %s", name, got, want)
		}
	}
}
