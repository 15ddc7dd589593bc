// Command local-cluster runs a real Kubernetes control plane on loopback, for tests and the demo:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, simulated nodes (kwok) and an
// image registry, all of them built from Go modules into this one program.
//
// Called with a component's name it runs that component with its own flags; `up` starts itself
// once for each of them and supervises the processes. Build it with build.sh, which tells
// Kubernetes its version.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"local-cluster/internal/cluster"
	"local-cluster/internal/component"
	"local-cluster/internal/elector"
	"local-cluster/internal/kstatus"
)

const usage = `usage: local-cluster up [--dir DIR] [--timeout DURATION] [--until-stdin-closes]
       local-cluster start|stop|restart|kill|pause|resume COMPONENT --dir DIR
       local-cluster down --dir DIR
       local-cluster elect --kubeconfig FILE --namespace NAMESPACE --name LEASE [--identity NAME]
             [--lease DURATION] [--renew DURATION] [--retry DURATION]
       local-cluster kstatus < OBJECTS
       local-cluster COMPONENT|kubectl [ARGUMENT...]

components: etcd registry kube-apiserver kube-controller-manager kube-scheduler kwok
`

// errUsage makes the program end with code 2.
var errUsage = errors.New("wrong usage")

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	// Through a link called kubectl the program is kubectl.
	if name != "kubectl" && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if code, ok := component.Run(name, args); ok {
		os.Exit(code)
	}
	var err error
	switch {
	case name == "up":
		err = up(args)
	case name == "elect":
		err = elect(args)
	case name == "kstatus":
		err = kstatus.Run(os.Stdin, os.Stdout)
	case slices.Contains(cluster.Actions, name):
		err = request(name, args)
	case name == "help" || name == "--help" || name == "-h":
		fmt.Print(usage)
	default:
		err = errUsage
	}
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func up(args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the cluster, emptied of an earlier one (default: a new temporary one)")
	timeout := flags.Duration("timeout", 3*time.Minute, "how long everything may take to be ready")
	stdin := flags.Bool("until-stdin-closes", false, "stop when standard input ends, as it does when the caller dies")
	if err := parse(flags, args); err != nil {
		return err
	}
	directory, err := absolute(*dir)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if *stdin {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return cluster.Up(ctx, cluster.Options{
		Dir: directory, Timeout: *timeout, Out: os.Stdout, Log: os.Stderr,
	})
}

// elect takes part in a leader election until standard input ends or a signal comes.
func elect(args []string) error {
	flags := flag.NewFlagSet("elect", flag.ContinueOnError)
	options := elector.Options{Out: os.Stdout}
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "whose rights are used")
	flags.StringVar(&options.Namespace, "namespace", "", "namespace of the Lease")
	flags.StringVar(&options.Name, "name", "", "name of the Lease")
	flags.StringVar(&options.Identity, "identity", "elector", "name of this candidate")
	flags.DurationVar(&options.LeaseDuration, "lease", 137*time.Second, "how long the Lease counts unless it is renewed")
	flags.DurationVar(&options.RenewDeadline, "renew", 107*time.Second, "when a leader that cannot renew gives up")
	flags.DurationVar(&options.RetryPeriod, "retry", 26*time.Second, "time between two tries")
	if err := parse(flags, args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return elector.Run(ctx, options)
}

// absolute returns the cluster's directory, a new one when none is named.
func absolute(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "local-cluster-")
	}
	return filepath.Abs(dir)
}

// request passes an action on to the running cluster; the flag may stand on either side of the
// component.
func request(action string, args []string) error {
	flags := flag.NewFlagSet(action, flag.ContinueOnError)
	dir := flags.String("dir", "", "directory of the cluster")
	target := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		target, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	if target == "" {
		target = flags.Arg(0)
	}
	if *dir == "" || (target == "") != (action == "down") {
		return errUsage
	}
	return cluster.Request(*dir, action, target)
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errUsage
	}
	return nil
}
