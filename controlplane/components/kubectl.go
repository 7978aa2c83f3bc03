package components

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in to clusters that kubectl knows
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectl runs the real one, plugins and all. args[0] is the program; if it has
// been invoked as "program kubectl …", help texts say so.
func kubectl(args []string) int {
	displayed := "kubectl"
	if !invokedAsKubectl(args) {
		displayed = programName(args) + " kubectl"
		args = args[1:]
	}
	// kubectl looks for its arguments here when it searches for plugins.
	os.Args = append([]string{"kubectl"}, args[1:]...)
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // before construction, which may log

	util.BehaviorOnFatal(func(message string, code int) {
		fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n"))
		if strings.Contains(message, "localhost:8080 was refused") { // Where kubectl looks if it knows of no cluster.
			fmt.Fprintln(os.Stderr, "hint: no cluster is configured; start one with `setpoint dev`, or set --kubeconfig FILE")
		}
		os.Exit(code)
	})
	command := cmd.NewDefaultKubectlCommand()
	command.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: displayed}
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err) // prints it the way kubectl does, and exits
	}
	return 0
}
