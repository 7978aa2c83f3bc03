package model

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/record"
)

// Fault is what failed, as far as that is known beside the text of an error.
type Fault = record.Fault

// Revision is a revision of a parent that a hook was shown.
type Revision = record.Revision

// Advice is what is said of a fault.
type Advice struct {
	// Title says what went wrong in a few words, and Help what to do about it; "" if
	// nothing is known but the error.
	Title, Help string
	// LocalHelp is what to do instead where a user's own machine has asked, without the
	// help of the process; "" for the same.
	LocalHelp string
	// Hook says that a hook is to blame, or the way to it: whatever declares the
	// controller says where that is.
	Hook bool
}

// FaultOf is what an error of this process is about; nil where no more is known than its
// text.
func FaultOf(err error) *Fault { return record.FaultOf(err) }

// AdviceFor finds the words for a fault, which may be nil.
func AdviceFor(f *Fault) Advice {
	if f == nil {
		return Advice{}
	}
	for _, known := range adviceRules() {
		if known.what == f.Kind && f.Code >= known.from && (known.to == 0 || f.Code <= known.to) {
			if f.Code != 0 {
				known.Title += " (" + strings.TrimSpace(strconv.Itoa(f.Code)+" "+http.StatusText(f.Code)) + ")"
			}
			return known.Advice
		}
	}
	return Advice{}
}

// adviceRule is that on one kind of fault, and on a range of codes if there is a last one.
type adviceRule struct {
	what     record.FaultKind
	from, to int
	Advice
}

// adviceRules are all there are, the more particular first.
func adviceRules() []adviceRule {
	hooks := slices.Concat(responseAdvice(), connectionAdvice())
	for i := range hooks {
		hooks[i].Hook = true
	}
	return append(hooks, []adviceRule{
		{what: record.HandlerFailed, Advice: Advice{
			Title: "The handler failed",
			Help:  "The log of whoever handles it says more. What it was told is in the timeline.",
		}},
		{what: record.Forbidden, Advice: Advice{
			Title:     "The API server forbids it",
			Help:      "Where a right is named that is lacking, give it to the service account of this process. Where a quota or a policy is named, make room in it, or keep to it.",
			LocalHelp: "the API server's dry run takes the same permissions as the write itself",
		}},
		{what: record.Invalid, Advice: Advice{
			Title: "The API server refuses what is desired",
			Help:  "What the controller desires breaks a rule of the kind, at the field that is named: change what it asks for there, or the object's spec that leads to it.",
		}},
		{what: record.Conflict, Advice: Advice{
			Title:     "Somebody else writes the same",
			Help:      "It is tried again on what is there then. If that goes on, the timeline says who else writes.",
			LocalHelp: "the object has changed meanwhile; run the command again",
		}},
		{what: record.Terminating, Advice: Advice{
			Title: "The namespace is being deleted",
			Help:  "Nothing new can be made in it. That ends when the namespace is gone.",
		}},
		{what: record.Rejected, Advice: Advice{
			Title: "The API server refuses it",
			Help:  "The error says why. Where it names an admission webhook, whoever runs that knows more.",
		}},
		{what: record.APIServerUnavailable, Advice: Advice{
			Title: "The API server does not answer",
			Help:  "It is tried again by itself. If that goes on, see how the API server is doing, and what is between it and this process.",
		}},
		{what: record.TimedOut, Advice: Advice{
			Title:     "It took too long",
			Help:      "Whoever was asked is slow or hangs, and its log says more; or give it more time.",
			LocalHelp: "--timeout gives more time",
		}},
		{what: record.Panicked, Advice: Advice{
			Title: "The program met a defect of its own",
			Help:  "Its log has the stack trace, which whoever writes the program needs.",
		}},
	}...)
}

// connectionAdvice are about hooks that have not answered.
func connectionAdvice() []adviceRule {
	return []adviceRule{
		{what: record.HookUnknownHost, Advice: Advice{
			Title: "The hook's host is not known",
			Help:  "See whether the name in the controller's URL is right, and its Service exists.",
			LocalHelp: "the hook is behind a Service of the cluster, which cannot be reached from here; run " +
				"`kubectl port-forward` to it, or the hook itself on this machine, and say where with --hook HOST:PORT",
		}},
		{what: record.HookUnreachable, Advice: Advice{
			Title:     "Nobody listens at the hook's address",
			Help:      "See whether the hook runs, and whether the controller's URL has the right host and port.",
			LocalHelp: "nothing listens there; is the hook running? --hook HOST:PORT names another place",
		}},
		{what: record.HookTimeout, Advice: Advice{
			Title: "The hook does not answer in time",
			Help:  "The hook is slow or hangs; its log says more. The controller's timeout can be raised.",
		}},
		{what: record.HookTLS, Advice: Advice{
			Title: "The hook's certificate is not accepted",
			Help:  "See whether the controller's caBundle is that of the hook's certificate, the name in the URL is in it, and both ends speak HTTPS.",
		}},
		{what: record.HookCredentials, Advice: Advice{
			Title: "There is nothing to ask the hook with",
			Help:  "See whether the Secret or file that the controller's webhook takes its credentials from is there, and has them.",
		}},
		{what: record.HookDisconnected, Advice: Advice{
			Title: "The hook broke off",
			Help:  "The connection ended before the answer did: the hook may have crashed, or been restarted. Its log says more.",
		}},
		{what: record.HookFailed, Advice: Advice{
			Title: "The hook failed",
			Help:  "What it was asked is in the timeline.",
		}},
	}
}

// responseAdvice are about what hooks have answered.
func responseAdvice() []adviceRule {
	return []adviceRule{
		{what: record.HookInvalidResponse, Advice: Advice{
			Title:     "The hook's reply makes no sense",
			Help:      "Mend the hook's reply at the field that is named. Nothing of the reply was acted upon.",
			LocalHelp: "correct the reply of the hook; nothing of such a reply is acted upon",
		}},
		{what: record.HookStatus, from: 300, to: 399, Advice: Advice{
			Title: "The hook's address has moved",
			Help:  "Put the address that it points to into the controller's URL.",
		}},
		{what: record.HookStatus, from: 404, to: 404, Advice: Advice{
			Title: "The hook's address leads nowhere",
			Help:  "The server is there, but has no such path: compare the URL of the controller with what the hook serves.",
		}},
		{what: record.HookStatus, from: 401, to: 401, Advice: credentialsAdvice()},
		{what: record.HookStatus, from: 403, to: 403, Advice: credentialsAdvice()},
		{what: record.HookStatus, from: 429, to: 429, Advice: Advice{
			Title: "The hook asks to be left alone for a while",
			Help:  "It is asked again when it said it may be. If that is often, the hook needs more room.",
		}},
		{what: record.HookStatus, from: 400, to: 499, Advice: Advice{
			Title: "The hook refuses the request",
			Help:  "What it was asked is in the timeline; what it answered is quoted here.",
		}},
		{what: record.HookStatus, from: 502, to: 504, Advice: Advice{
			Title: "Nobody answers behind the hook's address",
			Help:  "A proxy or Service is there, but no hook behind it: see whether its pods run and are ready.",
		}},
		{what: record.HookStatus, Advice: Advice{
			Title: "The hook failed",
			Help:  "The fault is within the hook: its log says more. What it was asked is in the timeline, to be tried by hand.",
		}},
	}
}

func credentialsAdvice() Advice {
	return Advice{
		Title: "The hook does not accept Setpoint's credentials",
		Help:  "Compare the credentials in the controller's webhook with what the hook asks for.",
	}
}
