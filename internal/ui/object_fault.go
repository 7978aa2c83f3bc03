package ui

import (
	"regexp"
	"strings"
)

// fault is an error as a reader understands it at a glance.
type fault struct {
	// Title says what went wrong in a few words; Text is the error in full.
	Title, Text string
	// Said is what the hook answered, as far as it was kept; Path the field that the
	// error is about.
	Said, Path string
	// Help says what to do about it.
	Help string
	// Hook says that the hook is to blame, or the way to it: the object that declares
	// the controller says where that is.
	Hook bool
}

var (
	answered  = regexp.MustCompile(`answered (\d{3}(?: [A-Z][A-Za-z' -]*)?)(?:: (.*))?`)
	malformed = regexp.MustCompile(`malformed reply: (?:([A-Za-z][\w.\[\]"/-]*): )?(.*)`)
	refused   = regexp.MustCompile(`is invalid: ([A-Za-z][^:\s]*): `)
)

// faults are what errors look like, the more particular first.
var faults = []struct {
	form        *regexp.Regexp
	title, help string
	hook        bool
}{
	{malformed, "The hook's reply makes no sense", "Mend the hook's reply at the field that is named. Nothing of the reply was acted upon.", true},
	{regexp.MustCompile(`answered 404`), "The hook's address leads nowhere", "The server is there, but has no such path: compare the URL of the controller with what the hook serves.", true},
	{regexp.MustCompile(`answered (401|403)`), "The hook does not accept Setpoint's credentials", "Compare the credentials in the controller's webhook with what the hook asks for.", true},
	{regexp.MustCompile(`answered 429`), "The hook asks to be left alone for a while", "It is asked again when it said it may be. If that is often, the hook needs more room.", true},
	{regexp.MustCompile(`answered (502|503|504)`), "Nobody answers behind the hook's address", "A proxy or Service is there, but no hook behind it: see whether its pods run and are ready.", true},
	{regexp.MustCompile(`answered 5\d\d`), "The hook failed", "The fault is within the hook: its log says more. What it was asked is in the timeline, to be tried by hand.", true},
	{regexp.MustCompile(`answered 4\d\d`), "The hook refuses the request", "What it was asked is in the timeline; what it answered is quoted here.", true},
	{regexp.MustCompile(`redirects are not followed`), "The hook's address has moved", "Put the address that it points to into the controller's URL.", true},
	{regexp.MustCompile(`no such host|lookup `), "The hook's host is not known", "See whether the name in the controller's URL is right, and its Service exists.", true},
	{regexp.MustCompile(`connection refused|connect: `), "Nobody listens at the hook's address", "See whether the hook runs, and whether the controller's URL has the right host and port.", true},
	{regexp.MustCompile(`no (complete )?answer within`), "The hook does not answer in time", "The hook is slow or hangs; its log says more. The controller's timeout can be raised.", true},
	{regexp.MustCompile(`certificate|tls: `), "The hook's certificate is not accepted", "See whether the controller's caBundle is that of the hook's certificate, and the name in the URL is in it.", true},
	{regexp.MustCompile(`is forbidden|cannot (get|list|watch|create|update|patch|delete) resource`), "Setpoint lacks a right", "Give Setpoint's service account the right that is named.", false},
	{refused, "The API server refuses what is desired", "What the controller desires breaks a rule of the kind, at the field that is named: change what it asks for there, or the object's spec that leads to it.", false},
	{regexp.MustCompile(`admission webhook`), "An admission webhook refuses the write", "The webhook that is named says why.", false},
	{regexp.MustCompile(`^(\w+ )?hook: |^(sync|finalize|customize) hook`), "The hook failed", "What it was asked is in the timeline.", true},
	{regexp.MustCompile(`^handler `), "The handler failed", "The program's log says more. What it was told is in the timeline.", false},
}

// explain finds the words for an error of a run.
func explain(text string) *fault {
	f := &fault{Title: "The last run failed", Text: text}
	for _, known := range faults {
		if known.form.MatchString(text) {
			f.Title, f.Help, f.Hook = known.title, known.help, known.hook
			break
		}
	}
	if m := answered.FindStringSubmatch(text); m != nil {
		f.Title += " (" + m[1] + ")"
		f.Said = strings.TrimSpace(m[2])
	}
	if m := malformed.FindStringSubmatch(text); m != nil {
		f.Path = m[1]
	}
	if m := refused.FindStringSubmatch(text); m != nil {
		f.Path = m[1]
	}
	return f
}
