package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// formerFlag is a flag of Metacontroller's command line. It is understood, so
// that an old command line can be pasted, but not shown.
type formerFlag struct {
	name string
	// alone says that it may be given without a value, which is true then.
	alone bool
	// now is the flag that says it; empty where nothing has to be said.
	now string
	// translate makes a value of now of one of the old flag; nil where they
	// have the same. A value that now need not be told is "".
	translate func(value string) (string, error)
	// why is what a user should know beside the new name.
	why string
}

// formerFlags are all of them but those that have kept name and meaning:
// kubeconfig, workers, events-qps, events-burst.
func formerFlags() []formerFlag {
	return []formerFlag{
		{name: "discovery-interval", why: "not needed: a kind is looked up when a controller names it, and when its definition changes"},
		{name: "cache-flush-interval", now: "resync-period", why: "caches need no flushing; what this did is to have all objects synced, and that is off by default"},
		{name: "metrics-address", now: "address", translate: addressOrNone, why: "health and metrics are served at one address"},
		{name: "client-go-qps", now: "kube-api-qps", why: "without it there is no limit but the API server's own"},
		{name: "client-go-burst", now: "kube-api-burst"},
		{name: "pprof-address", why: "not opened: --profiling serves profiles at --address"},
		{name: "leader-election", alone: true, now: "leader-elect", why: "on by default inside a cluster"},
		{name: "leader-election-resource-lock", why: "not needed: the lock is a Lease"},
		{name: "leader-election-namespace", now: "leader-elect-resource-namespace"},
		{name: "leader-election-id", now: "leader-elect-resource-name", why: "with Metacontroller's own (metacontroller), the two elect one of them"},
		{name: "health-probe-bind-address", now: "health-address", translate: addressOrNone, why: "also served at --address"},
		{name: "target-label-selector", now: "selector"},
		{name: "apply-strategy-ssa-field-manager", now: "field-manager"},
		{name: "zap-devel", alone: true, now: "log-level", translate: develLevel},
		{name: "zap-encoder", now: "log-format", translate: logFormat},
		{name: "zap-log-level", now: "log-level", translate: logLevel, why: "levels up to 4 are info, those above debug"},
		{name: "zap-stacktrace-level", why: "not needed: a stack trace is logged where it tells something"},
		{name: "zap-time-encoding", why: "not needed: times are written as in RFC 3339"},
	}
}

// formerStrategies are Metacontroller's words for the values of
// --apply-strategy, which has kept its name.
func formerStrategies() map[string]string {
	return map[string]string{"dynamic-apply": merge, "server-side-apply": server}
}

// former are the old flags of a command line.
type former struct {
	set   *pflag.FlagSet
	flags []formerFlag
}

// formerNote is what a user is told of an old flag.
type formerNote struct{ flag, now string }

// registerFormer adds the old flags, hidden.
func registerFormer(set *pflag.FlagSet) *former {
	f := &former{set: set, flags: formerFlags()}
	for _, old := range f.flags {
		set.String(old.name, "", old.why)
		flag := set.Lookup(old.name)
		flag.Hidden = true
		if old.alone {
			flag.NoOptDefVal = yes
		}
	}
	return f
}

// adopt gives our flags what the old ones say. A flag of ours that is given
// itself is left as it is.
func (f *runFlags) adopt() ([]formerNote, error) {
	given := map[string]bool{}
	f.set.Visit(func(flag *pflag.Flag) { given[flag.Name] = true })
	var notes []formerNote
	for _, old := range f.former.flags {
		if !given[old.name] {
			continue
		}
		note, err := f.former.adopt(old, given[old.now])
		if err != nil {
			return nil, err
		}
		notes = append(notes, note)
	}
	return notes, nil
}

func (f *former) adopt(old formerFlag, given bool) (formerNote, error) {
	note := formerNote{flag: "--" + old.name, now: old.why}
	if old.now == "" {
		return note, nil
	}
	value := f.set.Lookup(old.name).Value.String()
	if old.translate != nil {
		translated, err := old.translate(value)
		if err != nil {
			return note, fmt.Errorf("--%s: %w", old.name, err)
		}
		value = translated
	}
	note.now = fmt.Sprintf("--%s=%s", old.now, value)
	if given {
		note.now = "overruled by --" + old.now
		return note, nil
	}
	if err := f.set.Lookup(old.now).Value.Set(value); err != nil {
		return note, fmt.Errorf("--%s %q: %w", old.name, value, err)
	}
	return note, nil
}

// addressOrNone reads an address of which "0" means none.
func addressOrNone(value string) (string, error) {
	if value == "0" {
		return "", nil
	}
	return value, nil
}

func develLevel(value string) (string, error) {
	devel, err := strconv.ParseBool(value)
	if devel {
		return "debug", err
	}
	return "info", err
}

func logFormat(value string) (string, error) {
	switch value {
	case "json":
		return "json", nil
	case "console":
		return "text", nil
	}
	return "", fmt.Errorf("%q is none of json, console", value)
}

// detailed is the first of zap's levels at which Metacontroller logged what it
// found different in children.
const detailed = 5

func logLevel(value string) (string, error) {
	switch value {
	case "debug", "info", "error":
		return value, nil
	case "panic":
		return "error", nil
	}
	number, err := strconv.Atoi(value)
	switch {
	case err != nil || number < 1:
		return "", fmt.Errorf("%q is none of debug, info, error, panic, nor a number above 0", value)
	case number < detailed:
		return "info", nil
	}
	return "debug", nil
}
