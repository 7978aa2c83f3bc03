package ui

// overview is what the page of all controllers shows.
type overview struct {
	Told []told
}

func showOverview(v *visit) error {
	return v.render(page{Name: "overview", Title: "Overview", Section: "overview", Data: overview{Told: v.ask()}})
}
