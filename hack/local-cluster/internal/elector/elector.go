// Package elector takes part in a leader election with client-go's own code, so that tests can set
// it against the controller's.
package elector

import (
	"context"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Options say which Lease is taken, by whom, and how.
type Options struct {
	Kubeconfig    string
	Namespace     string
	Name          string
	Identity      string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
	// Out gets a line for each change: leading, stopped, or leader and who it is.
	Out io.Writer
}

// Run waits for the Lease and keeps it until ctx ends, then releases it.
func Run(ctx context.Context, options Options) error {
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	say := func(words ...any) { fmt.Fprintln(options.Out, words...) }
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: options.Namespace, Name: options.Name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: options.Identity},
		},
		LeaseDuration:   options.LeaseDuration,
		RenewDeadline:   options.RenewDeadline,
		RetryPeriod:     options.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say("leading") },
			OnStoppedLeading: func() { say("stopped") },
			OnNewLeader:      func(identity string) { say("leader", identity) },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}
