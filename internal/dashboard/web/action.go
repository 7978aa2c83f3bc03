package web

// Action is something that the user can do with an object or a controller, or why not.
type Action struct {
	Label, URL, Icon string
	// Post actions are forms; others are links.
	Post bool
	// Fields are the hidden fields of the form.
	Fields map[string]string
	// DisabledReason is why the user cannot do it; "" if they can.
	DisabledReason string
	// Target is the element that shows the response; "" to load another page.
	Target string
	Danger bool
}

// disabledReasons returns why actions are disabled.
func disabledReasons(actions []Action) (all []string) {
	for _, a := range actions {
		if a.DisabledReason != "" {
			all = append(all, a.Label+": "+a.DisabledReason)
		}
	}
	return all
}
