package main

import "strings"

// The comments of reviews.
const (
	positive = "this is a great instrument"
	neutral  = "this one is decent, but there are better ones"
	unknown  = "nobody knows this brand"
)

// opinion returns the comment for a brand in any case.
func opinion(brand string) string {
	switch strings.ToLower(strings.TrimSpace(brand)) {
	case "coleclark", "fender", "gibson", "ibanez", "martin", "seagull", "squier", "washburn":
		return positive
	case "epiphone", "guild", "gretsch", "jackson", "ovation", "prs", "rickenbacker", "rickenbauer", "taylor", "yamaha":
		return neutral
	}
	return unknown
}
