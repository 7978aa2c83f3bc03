package components

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	sched "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func apiServer(args []string) int { return run(apiserver.NewAPIServerCommand(), args) }

func controllerManager(args []string) int { return run(manager.NewControllerManagerCommand(), args) }

func scheduler(args []string) int { return run(sched.NewSchedulerCommand(), args) }

func run(command *cobra.Command, args []string) int {
	command.SetArgs(args)
	return cli.Run(command)
}
