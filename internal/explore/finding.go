package explore

// finding is something that does not hold.
type finding struct {
	property Property
	text     string
}
