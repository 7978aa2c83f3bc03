package run

import (
	"fmt"

	"github.com/spf13/pflag"
)

// legacyFlag is a flag of Metacontroller. It is accepted, so that existing command lines
// work, but hidden.
type legacyFlag struct {
	name string
	// valueOptional allows the flag without a value, for true.
	valueOptional bool
	// replacement is our flag; "" if there is none.
	replacement string
	// address means that the value is an address, of which "0" is none.
	address bool
	// hint explains the difference.
	hint string
}

// legacyFlags are the flags of Metacontroller, except those with the same name and meaning:
// kubeconfig, workers, events-qps, events-burst.
func legacyFlags() []legacyFlag {
	return []legacyFlag{
		{name: "discovery-interval", hint: "not needed: kinds are discovered when a controller or a CRD changes"},
		{name: "cache-flush-interval", replacement: "resync-period", hint: "the periodic resync of all objects is off by default"},
		{name: "metrics-address", replacement: "address", address: true, hint: "health and metrics share one address"},
		{name: "client-go-qps", replacement: "kube-api-qps", hint: "by default only the API server limits requests"},
		{name: "client-go-burst", replacement: "kube-api-burst"},
		{name: "pprof-address", hint: "not supported: --profiling serves profiles at --address"},
		{name: "leader-election", valueOptional: true, replacement: "leader-elect", hint: "on by default inside a cluster"},
		{name: "leader-election-resource-lock", hint: "not needed: the lock is always a Lease"},
		{name: "leader-election-namespace", replacement: "leader-elect-resource-namespace"},
		{name: "leader-election-id", replacement: "leader-elect-resource-name",
			hint: "with the ID of Metacontroller (metacontroller), only one of the two leads"},
		{name: "health-probe-bind-address", replacement: "health-address", address: true, hint: "also served at --address"},
		{name: "target-label-selector", replacement: "selector"},
		{name: "apply-strategy-ssa-field-manager", replacement: "field-manager"},
		{name: "zap-devel", valueOptional: true, hint: "no effect: use --log-level=debug"},
		{name: "zap-encoder", hint: "no effect: use --log-format=json or text"},
		{name: "zap-log-level", hint: "no effect: use --log-level"},
		{name: "zap-stacktrace-level", hint: "not needed: stack traces are logged for panics"},
		{name: "zap-time-encoding", hint: "not needed: times are RFC 3339"},
	}
}

// yes is the value of a flag that was given without one.
const yes = "true"

// flagNote is logged for a flag that has another meaning, or none.
type flagNote struct{ flag, text string }

// registerLegacy adds the legacy flags, hidden.
func registerLegacy(set *pflag.FlagSet) {
	for _, old := range legacyFlags() {
		set.String(old.name, "", old.hint)
		flag := set.Lookup(old.name)
		flag.Hidden = true
		if old.valueOptional {
			flag.NoOptDefVal = yes
		}
	}
}

// applyLegacy copies the values of legacy flags to ours, unless ours are set too.
func applyLegacy(set *pflag.FlagSet) (notes []flagNote, err error) {
	for _, old := range legacyFlags() {
		if !set.Changed(old.name) {
			continue
		}
		note, err := old.apply(set)
		if err != nil {
			return nil, err
		}
		notes = append(notes, note)
	}
	return notes, nil
}

func (old *legacyFlag) apply(set *pflag.FlagSet) (flagNote, error) {
	note := flagNote{flag: "--" + old.name, text: old.hint}
	if old.replacement == "" {
		return note, nil
	}
	value := set.Lookup(old.name).Value.String()
	if old.address && value == "0" {
		value = ""
	}
	note.text = fmt.Sprintf("--%s=%s", old.replacement, value)
	if set.Changed(old.replacement) {
		note.text = "ignored, --" + old.replacement + " is set"
		return note, nil
	}
	if err := set.Lookup(old.replacement).Value.Set(value); err != nil {
		return note, fmt.Errorf("--%s %q: %w", old.name, value, err)
	}
	return note, nil
}
