package portforward_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate/portforward"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"web":           "home/web:8082",
		"shop/web":      "shop/web:8082",
		"shop/web:9000": "shop/web:9000",
		"web:1":         "home/web:1",
		"":              "",
		"shop/":         "",
		"/web":          "",
		"a/b/c":         "",
		"web:0":         "",
		"web:70000":     "",
		"web:http":      "",
	} {
		got, err := portforward.Parse(text, "home")
		if want == "" {
			if err == nil {
				t.Errorf("%q is %v, want an error", text, got)
			}
			continue
		}
		if err != nil || got.String() != want {
			t.Errorf("%q is %v, %v; want %s", text, got, err, want)
		}
	}
}
