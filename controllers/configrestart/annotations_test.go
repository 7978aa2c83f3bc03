package configrestart

import (
	"strings"
	"testing"
)

func TestParseAnnotations(t *testing.T) {
	for name, c := range map[string]struct {
		selector, allAtOnce string
		want                restartSettings
		wrong               string
	}{
		"one label":         {selector: "app=frontend", want: restartSettings{selector: "app=frontend"}},
		"several":           {selector: "app in (a, b),!old", want: restartSettings{selector: "app in (a, b),!old"}},
		"one by one":        {selector: "app=a", allAtOnce: "false", want: restartSettings{selector: "app=a"}},
		"all at once":       {selector: "app=a", allAtOnce: "true", want: restartSettings{selector: "app=a", allAtOnce: true}},
		"neither":           {selector: "app=a", allAtOnce: "yes", wrong: `must be "true" or "false", not "yes"`},
		"empty":             {selector: "", wrong: "would select every pod"},
		"blank":             {selector: "  ", wrong: "would select every pod"},
		"no selector":       {selector: "app=frontend=x", wrong: "must be a label selector, such as app=frontend"},
		"no label at all":   {selector: "=frontend", wrong: "must be a label selector"},
		"a set left open":   {selector: "app in (a", wrong: "must be a label selector"},
		"commas and no key": {selector: ",", wrong: "must be a label selector"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseAnnotations(map[string]string{Selector: c.selector, AllAtOnce: c.allAtOnce})
			switch {
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("got %+v, %v; want an error about %q", got, err, c.wrong)
			case c.wrong == "" && (err != nil || got != c.want):
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}
