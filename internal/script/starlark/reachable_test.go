package starlark

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
)

// TestReachable compares all names of the language, their attributes and those of the values that
// they make, with a list that a person has read: nothing there reads files, the network, the
// environment or the clock. A new version of the language that has more fails here.
func TestReachable(t *testing.T) {
	names := maps.Clone(starlark.Universe)
	maps.Copy(names, predeclared())
	for _, v := range []starlark.Value{
		starlark.String(""), starlark.Bytes(""), &starlark.List{}, &starlark.Dict{}, &starlark.Set{}, starlark.MakeInt(1), starlark.Float(1),
		starlark.Tuple{}, startime.Time(time.Time{}), startime.Duration(0),
	} {
		names["("+v.Type()+")"] = v
	}
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		attributes := []string{name + ":"}
		if v, has := names[name].(starlark.HasAttrs); has {
			attributes = append(attributes, v.AttrNames()...)
		}
		list.WriteString(strings.Join(attributes, " ") + "\n")
	}
	want, err := os.ReadFile("testdata/reachable.txt")
	if err != nil || list.String() != string(want) {
		t.Errorf("%v: code can reach\n%s\nand not\n%s", err, list.String(), want)
	}
}
