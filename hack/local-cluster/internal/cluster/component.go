package cluster

import (
	"fmt"
	"time"

	"k8s.io/component-base/version"
)

const (
	podRange = "10.244.0.0/16"
	// Addresses of Services in one cluster.
	servicesPerCluster = 1024
)

// serviceRange returns the addresses of Services: some of the loopback network, which no other
// cluster on this machine uses. Nothing forwards them to pods, which do not exist; but a test that
// listens on the address of a Service is what the API server reaches when it calls a webhook.
func serviceRange(apiServerPort int) string {
	first := 127<<24 + (apiServerPort-firstPort+1)*servicesPerCluster
	return fmt.Sprintf("%d.%d.%d.%d/22", first>>24, first>>16&255, first>>8&255, first&255)
}

// component is one process of the cluster: what to run, and how long it may take to end.
type component struct {
	name  string
	args  []string
	grace time.Duration
}

// The components in the order in which they start; they stop in the reverse one. With etcd gone
// first the API server would hold its port for more than a minute.
const (
	etcd              = "etcd"
	registry          = "registry"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kwok              = "kwok"
)

// clients are the components that do nothing but use the API server.
var clients = []string{controllerManager, kwok, scheduler}

// clientRestart is how long one of them stays away after it died.
const clientRestart = time.Second

// migrator switches StorageVersionMigrations on, which are on by default from 1.37 on.
const migrator = "--feature-gates=StorageVersionMigrator=true"

// runsMigrations says whether they trim status.storedVersions of CRDs; earlier ones stay off.
func runsMigrations() bool {
	return version.DefaultKubeBinaryVersion >= "1.36"
}

// components returns all of them, in starting order.
func components(d dir, p ports) []component {
	return []component{
		{etcd, etcdArgs(d, p), 2 * time.Second},
		{registry, []string{d.path("config", "registry.yaml")}, time.Second},
		{apiServer, apiServerArgs(d, p), 3 * time.Second},
		{controllerManager, controllerManagerArgs(d), time.Second},
		{scheduler, schedulerArgs(d), time.Second},
		{kwok, kwokArgs(d), time.Second},
	}
}

func etcdArgs(d dir, p ports) []string {
	client := "https://" + loopback(p.etcd)
	peer := "https://" + loopback(p.etcdPeer)
	return []string{
		"--name=local",
		"--data-dir=" + d.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=local=" + peer,
		"--cert-file=" + d.pki("etcd.crt"),
		"--key-file=" + d.pki("etcd.key"),
		"--client-cert-auth",
		"--trusted-ca-file=" + d.pki("ca.crt"),
		"--peer-cert-file=" + d.pki("etcd.crt"),
		"--peer-key-file=" + d.pki("etcd.key"),
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + d.pki("ca.crt"),
		"--unsafe-no-fsync", // the data is thrown away
	}
}

func apiServerArgs(d dir, p ports) []string {
	args := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.apiServer),
		// An Endpoints object may not hold a loopback address.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + d.pki("apiserver.crt"),
		"--tls-private-key-file=" + d.pki("apiserver.key"),
		"--client-ca-file=" + d.pki("ca.crt"),
		"--etcd-servers=https://" + loopback(p.etcd),
		"--etcd-cafile=" + d.pki("ca.crt"),
		"--etcd-certfile=" + d.pki("apiserver-etcd.crt"),
		"--etcd-keyfile=" + d.pki("apiserver-etcd.key"),
		"--service-cluster-ip-range=" + serviceRange(p.apiServer),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + d.pki("accounts.key"),
		"--service-account-key-file=" + d.pki("accounts.pub"),
		"--authorization-mode=RBAC",
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--allow-privileged=true",
		"--audit-policy-file=" + d.path("config", "audit-policy.yaml"),
		"--audit-log-path=" + d.path("audit.log"),
		// Written before the answer is sent, so that a test can read what it has just caused.
		"--audit-log-mode=blocking-strict",
		"--audit-log-maxsize=2000",
		// Objects are counted every minute, which tests of those counts would wait for.
		"--etcd-count-metric-poll-period=20s",
	}
	if runsMigrations() {
		args = append(args, migrator, "--runtime-config=storagemigration.k8s.io/v1beta1=true")
	}
	return args
}

func controllerManagerArgs(d dir) []string {
	config := d.pki("kube-controller-manager.kubeconfig")
	args := []string{
		"--kubeconfig=" + config,
		"--authentication-kubeconfig=" + config,
		"--authorization-kubeconfig=" + config,
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + d.pki("accounts.key"),
		"--root-ca-file=" + d.pki("ca.crt"),
		"--cluster-signing-cert-file=" + d.pki("ca.crt"),
		"--cluster-signing-key-file=" + d.pki("ca.key"),
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		// A machine that is busy compiling must not make every pod unready.
		"--node-monitor-period=2s",
		"--node-monitor-grace-period=2m",
	}
	if runsMigrations() {
		args = append(args, migrator)
	}
	return args
}

func schedulerArgs(d dir) []string {
	config := d.pki("kube-scheduler.kubeconfig")
	return []string{
		"--kubeconfig=" + config,
		"--authentication-kubeconfig=" + config,
		"--authorization-kubeconfig=" + config,
		"--secure-port=0",
		"--leader-elect=false",
	}
}

func kwokArgs(d dir) []string {
	return []string{
		"--kubeconfig=" + d.pki("kwok.kubeconfig"),
		"--config=" + d.path("config", "stages.yaml"),
		"--manage-all-nodes",
		"--cidr=" + podRange,
		"--node-ip=10.0.0.1",
		// A kwok that is started again would have to win the nodes' leases back one by one, and
		// sometimes never does. The nodes' status is their heartbeat instead.
		"--node-lease-duration-seconds=0",
	}
}
