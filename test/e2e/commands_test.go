package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/setpoint-dev/setpoint/test/pages"
)

// How often a command is polled; how long a script waits before it fails; how long
// output has to stay as it is.
const (
	pollInterval  = 200 * time.Millisecond
	waitTimeout   = 2 * time.Minute
	staysPeriod   = 3 * time.Second
	settledPeriod = time.Second
)

type command = func(ts *testscript.TestScript, neg bool, args []string)

// commands is what scripts can say beyond testscript's own commands. README.md
// explains each.
func commands() map[string]command {
	return map[string]command{
		"kubectl":     kubectlCommand,
		"setpoint":    passTo("setpoint"),
		"apply":       apply,
		"crd":         crd,
		"capture":     capture,
		"eventually":  eventually,
		"settles":     settles,
		"stays":       stays,
		"hook":        hookCommand,
		"certificate": certificateCommand,
		"calls":       callsCommand,
		"lastcall":    lastCallCommand,
		"tell":        instructCommand,
		"proxy":       proxyCommand,
		"shown":       pages.Compare,
		"written":     written,
		"changed":     changed,
		"manifests":   manifestsCommand,
		"collector":   collectorCommand,
		"spans":       spansCommand,
		"picture":     pictureCommand,
	}
}

// passTo runs a program, whose output can then be looked at with stdout and stderr.
func passTo(program string) command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		err := ts.Exec(program, args...)
		if err == nil && neg {
			ts.Fatalf("%s succeeded, which it should not", program)
		}
		if err != nil && !neg {
			ts.Fatalf("%s: %v", program, err)
		}
	}
}

// apply FILE…: the files' $VARIABLES are filled in, and kubectl applies them.
// What was applied is deleted when the script ends.
func apply(ts *testscript.TestScript, neg bool, args []string) {
	var manifests []string
	for _, file := range args {
		manifests = append(manifests, os.Expand(ts.ReadFile(file), ts.Getenv))
	}
	applyText(ts, neg, strings.Join(manifests, "\n---\n"))
}

func applyText(ts *testscript.TestScript, neg bool, text string) {
	client := ts.Value(kubectlKey{}).(*kubectl)
	ts.Defer(func() { _, _ = client.withManifests(environ(ts), text, "delete", "--ignore-not-found", "--wait=false") })
	out, err := client.withManifests(environ(ts), text, "apply")
	ts.Check(out.replay(ts))
	if (err != nil) != neg {
		ts.Fatalf("kubectl apply: %v\n%s%s", err, out.stderr.String(), text)
	}
}

// crd KIND [Cluster]: installs a kind to be a parent, in the group $NS.test,
// version v1, with any spec and a status subresource.
func crd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: crd KIND [Cluster]")
	}
	scope := "Namespaced"
	if len(args) == 2 {
		scope = args[1]
	}
	group, plural := ts.Getenv("NS")+".test", strings.ToLower(args[0])+"s"
	applyText(ts, false, fmt.Sprintf(crdManifest, plural, group, args[0], scope))
	eventually(ts, false, []string{"^True$", "kubectl", "get", "crd", plural + "." + group,
		"-o", `jsonpath={.status.conditions[?(@.type=="Established")].status}`})
	// The API server serves an established kind, and lists it in discovery, a moment later.
	eventually(ts, false, []string{"", "kubectl", "get", plural + "." + group, "-o", "name"})
}

const crdManifest = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]s.%[2]s
spec:
  group: %[2]s
  scope: %[4]s
  names: {kind: %[3]s, plural: %[1]s}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// capture VARIABLE COMMAND…: what the command prints, trimmed, goes into the variable.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: capture VARIABLE COMMAND…")
	}
	out, err := run(ts, "", args[1], args[2:]...)
	if err != nil {
		ts.Fatalf("%s: %v\n%s", strings.Join(args[1:], " "), err, out)
	}
	ts.Setenv(args[0], strings.TrimSpace(out.stdout.String()))
}

// eventually [-within 60s] [-not] PATTERN COMMAND…: repeats the command until its output is right.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	p := parsePoll(ts, "within", waitTimeout, args)
	if neg {
		ts.Fatalf("! eventually would wait for nothing: use stays, or eventually -not")
	}
	deadline := time.Now().Add(p.period)
	for interval := pollInterval; ; interval = min(interval*5/4, time.Second) {
		out, right := p.once(ts)
		if right {
			ts.Check(out.replay(ts))
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not within %v: %s\nlast output:\n%s", p.period, p, out)
		}
		<-time.After(interval)
	}
}

// stays [-for 3s] [-not] PATTERN COMMAND…: the output is right each time.
func stays(ts *testscript.TestScript, neg bool, args []string) {
	p := parsePoll(ts, "for", staysPeriod, args)
	if neg {
		ts.Fatalf("! stays says nothing: use stays -not")
	}
	for end := time.Now().Add(p.period); time.Now().Before(end); <-time.After(pollInterval) {
		if out, right := p.once(ts); !right {
			ts.Fatalf("did not stay so: %s\noutput:\n%s", p, out)
		}
	}
}

// settles [-for 1s] VARIABLE COMMAND…: repeats the command until it has printed the same for that long, which
// goes into the variable. What still happens after an event on a slow machine is over then.
func settles(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	period := flags.Duration("for", settledPeriod, "")
	ts.Check(flags.Parse(args))
	if neg || flags.NArg() < 2 {
		ts.Fatalf("usage: settles [-for DURATION] VARIABLE COMMAND…")
	}
	variable, command := flags.Arg(0), flags.Args()[1:]
	begin := time.Now()
	last, since := "", begin
	for first := true; first || time.Since(since) < *period; first = false {
		out, err := runPolled(ts, command[0], command[1:])
		if err != nil {
			ts.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
		if now := strings.TrimSpace(out.stdout.String()); first || now != last {
			last, since = now, time.Now()
		}
		if time.Since(begin) > waitTimeout {
			ts.Fatalf("not settled within %v: %s\nlast output:\n%s", waitTimeout, strings.Join(command, " "), out)
		}
		<-time.After(pollInterval)
	}
	ts.Setenv(variable, last)
}

// poll is a command that is repeated, and what it should print.
type poll struct {
	period  time.Duration
	not     bool
	pattern *regexp.Regexp
	command []string
}

func parsePoll(ts *testscript.TestScript, periodFlag string, period time.Duration, args []string) poll {
	var p poll
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&p.period, periodFlag, period, "")
	flags.BoolVar(&p.not, "not", false, "")
	ts.Check(flags.Parse(args))
	if flags.NArg() < 2 {
		ts.Fatalf("usage: [-%s DURATION] [-not] PATTERN COMMAND…", periodFlag)
	}
	var err error
	p.pattern, err = regexp.Compile("(?ms)" + flags.Arg(0))
	ts.Check(err)
	p.command = flags.Args()[1:]
	return p
}

// once runs the command. A pattern is looked for in all it prints, whether it
// succeeds or not: "NotFound" counts too. The empty pattern expects success. -not
// expects success with something printed that does not match.
func (p poll) once(ts *testscript.TestScript) (output, bool) {
	out, err := runPolled(ts, p.command[0], p.command[1:])
	switch {
	case p.not:
		return out, err == nil && out.stdout.Len() > 0 && !p.pattern.Match(out.stdout.Bytes())
	case p.pattern.String() == "(?ms)":
		return out, err == nil
	}
	return out, p.pattern.MatchString(out.String())
}

// kubectlCommand runs kubectl, in this process if it can.
func kubectlCommand(ts *testscript.TestScript, neg bool, args []string) {
	out, err := ts.Value(kubectlKey{}).(*kubectl).run(ts.MkAbs("."), environ(ts), args...)
	if errors.Is(err, errOnlyKubectl) {
		passTo("kubectl")(ts, neg, args)
		return
	}
	ts.Check(out.replay(ts))
	if (err != nil) != neg {
		ts.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// runPolled is run, but for the commands of kubectl that run in this process.
func runPolled(ts *testscript.TestScript, program string, args []string) (output, error) {
	if program == "kubectl" {
		out, err := ts.Value(kubectlKey{}).(*kubectl).run(ts.MkAbs("."), environ(ts), args...)
		if !errors.Is(err, errOnlyKubectl) {
			return out, err
		}
	}
	return run(ts, "", program, args...)
}

func (p poll) String() string {
	not := ""
	if p.not {
		not = "not "
	}
	return fmt.Sprintf("%s%q from %s", not, strings.TrimPrefix(p.pattern.String(), "(?ms)"), strings.Join(p.command, " "))
}

// output is what a program printed.
type output struct{ stdout, stderr bytes.Buffer }

func (o output) String() string { return o.stdout.String() + o.stderr.String() }

// replay hands the output to the script's stdout and stderr commands.
func (o output) replay(ts *testscript.TestScript) error {
	_, err := ts.Stdout().Write(o.stdout.Bytes())
	_, err2 := ts.Stderr().Write(o.stderr.Bytes())
	return cmp.Or(err, err2)
}

// run is ts.Exec without its log, for what is repeated. It knows the commands that
// are not programs but can be polled.
func run(ts *testscript.TestScript, stdin, program string, args ...string) (output, error) {
	var out output
	switch program {
	case "calls":
		fmt.Fprintln(&out.stdout, knownHook(ts, false, args, 1).called())
		return out, nil
	case "spans":
		out.stdout.WriteString(knownCollector(ts, args).String())
		return out, nil
	case "lastcall":
		out.stdout.Write(knownHook(ts, false, args, 1).lastCall())
		return out, nil
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environ(ts)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &out.stdout, &out.stderr
	err := cmd.Run()
	return out, err
}

// environ is the environment that the script began with, as it has changed
// since: it may have gone over to another cluster.
func environ(ts *testscript.TestScript) []string {
	var now []string
	began, _ := ts.Value(environKey{}).([]string)
	for _, variable := range began {
		name, _, _ := strings.Cut(variable, "=")
		now = append(now, name+"="+ts.Getenv(name))
	}
	return now
}

// manifests DIR: writes the chart and the manifests of a release into a folder, as make release does.
func manifestsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: manifests DIR")
	}
	// The environment is that of the tests, with the caches of the go command.
	cmd := exec.Command("go", "-C", "../../tools/release", "run", ".", "-root", "../..", "-version", "1.2.3", "-install-only", "-o", ts.MkAbs(args[0]))
	if out, err := cmd.CombinedOutput(); err != nil {
		ts.Fatalf("make the manifests: %v\n%s", err, out)
	}
}
