// Package component runs one part of the control plane inside the calling process, with the flags
// that its own binary takes.
//
// It is kept apart from package cluster, which starts and supervises these processes and needs
// none of Kubernetes' code.
package component

import (
	"os"
	_ "time/tzdata" // CronJobs name time zones, and the machine may have no database of them.

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// runners holds what each component's own main function does; they read os.Args.
var runners = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kwok":                    runKwok,
	"registry":                runRegistry,
	"kubectl":                 runKubectl,
}

// Run runs the component called name until it ends, and returns its exit code; ok is false, and
// nothing ran, when there is no such component.
func Run(name string, args []string) (code int, ok bool) {
	run, ok := runners[name]
	if !ok {
		return 0, false
	}
	os.Args = append([]string{name}, args...)
	return run(), true
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // ends the process with kubectl's own message and code
	}
	return 0
}
