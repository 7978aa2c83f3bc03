package main

import (
	"fmt"
	"strings"
)

// boxes are those of the picture, from top to bottom. A box has the packages in the folders of its
// list, unless a longer path is in another box; it imports boxes below it only.
func boxes() []box {
	return []box{
		{"control plane", "controlplane"},
		{"commands", "cmd internal/cmd internal/cli"},
		{"tests and explorations", "internal/testcase internal/explore setpointtest"},
		{"setpoint dev", "internal/dev internal/workspace"},
		{"Go SDK", ". internal/sdk controllers dashboard"},
		{"manager", "internal/manager internal/dryrun internal/operator internal/flags"},
		{"dashboard", "internal/dashboard internal/typegen"},
		{"inspection", "internal/inspect internal/diff"},
		{"compile", "internal/compile"},
		{"loops", "internal/controller internal/rollout internal/recording internal/difference"},
		{"admission", "internal/admission"},
		{"record", "internal/record internal/lasthandled"},
		{"plan and apply", "internal/plan internal/apply internal/related internal/selector internal/identity " +
			"internal/credential internal/configmap"},
		{"calls of hooks, masks, traces", "internal/call internal/redact internal/trace internal/script internal/expression " +
			"internal/schema internal/scaffold"},
		{"cache and queue", "internal/cache internal/queue internal/object internal/request internal/lease internal/served"},
		{"kinds and contract", "api hook config internal js python"},
	}
}

type box struct{ name, folders string }

// picture draws the boxes and what they import, without the arrows that others imply. An arrow upwards is a problem.
func picture(packages map[string]goPackage, problems *problems) string {
	all := boxes()
	below := make([][]bool, len(all))
	for i := range all {
		below[i] = make([]bool, len(all))
	}
	for _, dir := range keys(packages) {
		for _, imported := range packages[dir].imports {
			switch from, to := boxOf(all, dir), boxOf(all, imported); {
			case from > to:
				problems.add("in the picture of packages, %s (%s) imports %s (%s) above it", dir, all[from].name, imported, all[to].name)
			case from < to:
				below[from][to] = true
			}
		}
	}
	var text strings.Builder
	text.WriteString("```mermaid\nflowchart TD\n")
	for i, b := range all {
		fmt.Fprintf(&text, "  b%d[%q]\n", i, b.name)
	}
	for from := range all {
		for to := range all {
			if below[from][to] && !implied(below, from, to) {
				fmt.Fprintf(&text, "  b%d --> b%d\n", from, to)
			}
		}
	}
	text.WriteString("```\n")
	return text.String()
}

// boxOf returns the place of the box with the longest folder that has the package.
func boxOf(all []box, dir string) (place int) {
	longest := -1
	for i, b := range all {
		for _, folder := range strings.Fields(b.folders) {
			if (dir == folder || strings.HasPrefix(dir, folder+"/")) && len(folder) > longest {
				place, longest = i, len(folder)
			}
		}
	}
	return place
}

// reaches tells whether arrows lead from one box to another.
func reaches(below [][]bool, from, to int) bool {
	return below[from][to] || implied(below, from, to)
}

// implied tells whether arrows lead from one box to another by way of a third.
func implied(below [][]bool, from, to int) bool {
	for between := from + 1; between < to; between++ {
		if below[from][between] && reaches(below, between, to) {
			return true
		}
	}
	return false
}

// goPackage is what the pages show of a package: the first sentence of its comment, and the folders of what it imports
// of this module.
type goPackage struct {
	sentence string
	imports  []string
}
