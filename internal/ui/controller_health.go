package ui

import (
	"cmp"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// health is how a controller is doing, in a word, and what is to be known about that.
type health struct {
	// Tone is the class of its badge; Rank sorts those first that need somebody.
	Tone, Word string
	Rank       int
	// Reason and Message are those of the condition that says so.
	Reason, Message string
}

// healthOf judges by the conditions, the worst first.
func healthOf(c *inspect.Controller) health {
	accepted, ready := condition(c, "Accepted"), c.Ready()
	of := func(tone, word string, rank int, said inspect.Condition) health {
		return health{Tone: tone, Word: word, Rank: rank, Reason: said.Reason, Message: said.Message}
	}
	switch {
	case accepted.Status == "False":
		return of("bad", "Refused", 0, accepted)
	case c.Suspended:
		return of("calm", "Suspended", 4, ready)
	case ready.Status == "False":
		return of("bad", "Not ready", 1, ready)
	case ready.Status != "True":
		return of("wait", "Starting", 3, ready)
	case c.Held > 0:
		return of("bad", "Deletions held", 1, condition(c, "DeletionsHeld"))
	case c.Failing > 0:
		return health{Tone: "warn", Word: count(c.Failing) + " failing", Rank: 2}
	case c.Unsettled > 0:
		return of("warn", "Unsettled", 2, condition(c, "Settled"))
	}
	return health{Tone: "good", Word: "Ready", Rank: 5}
}

// condition is the one of a type; the zero Condition if there is none.
func condition(c *inspect.Controller, name string) inspect.Condition {
	for _, each := range c.Conditions {
		if each.Type == name {
			return each
		}
	}
	return inspect.Condition{}
}

// controllerRow is a controller as it is listed.
type controllerRow struct {
	*inspect.Controller
	// Short is its own name, and Sort what sort of controller it is, in words.
	Short, Sort string
	Health      health
	Plots       []plot
}

// rowOf says how a controller of a process is doing. What a program does while it stands
// by, only the process that leads knows, unless it is at work in each; where an object
// declares the controller, that says it in its status.
func rowOf(c *inspect.Controller, of *inspect.Process) controllerRow {
	row := controllerRow{Controller: c, Short: shortName(c.Name), Sort: sortOf(c), Health: healthOf(c), Plots: plotsOf(c.Series)}
	if of.StandsBy() && c.Declared == nil && !c.Everywhere && row.Health.Tone != "bad" {
		row.Health = health{Tone: "calm", Word: "Standby", Rank: 4, Message: of.Caveat()}
	}
	return row
}

// shortName is what the user has called a controller.
func shortName(name string) string {
	_, short, named := strings.Cut(name, "/")
	if !named {
		return name
	}
	return short
}

// sortOf is such as "CompositeController · setpoint.dev", or "Go program guitar".
func sortOf(c *inspect.Controller) string {
	if c.Declared == nil {
		return "Go program " + c.Process
	}
	return strings.TrimSuffix(c.Declared.Kind.Kind+" · "+cmp.Or(c.Declared.Group, c.Declared.Version), " · ")
}
