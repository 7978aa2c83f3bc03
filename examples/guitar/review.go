package main

import "strings"

// What a review can say.
const (
	positive = "this is a great instrument"
	neutral  = "this one is decent, but there are better ones"
	unknown  = "nobody knows this brand"
)

// opinion is what is thought of the guitars of a brand, however it is capitalized.
func opinion(brand string) string {
	switch strings.ToLower(strings.TrimSpace(brand)) {
	case "coleclark", "fender", "gibson", "ibanez", "martin", "seagull", "squier", "washburn":
		return positive
	case "epiphone", "guild", "gretsch", "jackson", "ovation", "prs", "rickenbacker", "rickenbauer", "taylor", "yamaha":
		return neutral
	}
	return unknown
}
