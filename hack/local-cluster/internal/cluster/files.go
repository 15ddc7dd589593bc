package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dir is a cluster's directory; its methods name what is in it.
type dir string

func (d dir) path(elements ...string) string {
	return filepath.Join(append([]string{string(d)}, elements...)...)
}

func (d dir) log(component string) string { return d.path("logs", component+".log") }
func (d dir) pki(name string) string      { return d.path("pki", name) }
func (d dir) kubeconfig() string          { return d.path("kubeconfig") }
func (d dir) description() string         { return d.path("cluster.json") }

// owned lists what `up` makes in a directory, and therefore may remove from one that an earlier
// cluster used.
var owned = []string{
	"cluster.json", "control.sock", "kubeconfig", "kubectl", "kubectl-cache", "registries.conf",
	"audit.log", "config", "controller", "etcd", "logs", "pki", "registry",
}

// prepare empties the directory of an earlier cluster's files and makes the folders.
func (d dir) prepare() error {
	for _, name := range owned {
		if err := os.RemoveAll(d.path(name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"config", "controller", "logs", "pki", "registry"} {
		if err := os.MkdirAll(d.path(name), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// Description is what cluster.json holds: everything that a test or a script needs.
type Description struct {
	Dir            string         `json:"dir"`
	Kubeconfig     string         `json:"kubeconfig"`
	Kubectl        string         `json:"kubectl"`
	APIServer      string         `json:"apiServer"`
	CAFile         string         `json:"caFile"`
	Etcd           string         `json:"etcd"`
	Registry       string         `json:"registry"`
	RegistriesConf string         `json:"registriesConf"`
	AuditLog       string         `json:"auditLog"`
	Logs           string         `json:"logs"`
	ControllerCert string         `json:"controllerCert"`
	ControllerKey  string         `json:"controllerKey"`
	ControllerCA   string         `json:"controllerCA"`
	Supervisor     int            `json:"supervisor"`
	PIDs           map[string]int `json:"pids"`
}

// write replaces cluster.json in one step, so that a reader never sees half of it.
func (d Description) write() error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	path := dir(d.Dir).description()
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// kubeconfig returns a kubeconfig that holds its certificates, so that it can be copied elsewhere.
func kubeconfig(server string, ca []byte, user string, client keyPair) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: local-cluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: local-cluster
  context:
    cluster: local-cluster
    user: %s
current-context: local-cluster
`, server, encode(ca), user, encode(client.cert), encode(client.key), user)
}

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// auditPolicy gives one line for each request, written when its answer is complete.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

// registryConfig is in the format of the distribution project.
func registryConfig(address, storage, secret string) string {
	return fmt.Sprintf(`version: 0.1
log:
  level: warn
  accesslog:
    disabled: true
storage:
  filesystem:
    rootdirectory: %q
  delete:
    enabled: true
http:
  addr: %s
  secret: %s
`, storage, address, secret)
}

func registriesConf(registry string) string {
	return fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", registry)
}

// kubectlScript runs kubectl against this cluster whatever the caller's environment says, so that
// an exported production kubeconfig is never touched. A quarter of its time would go to the collector.
func kubectlScript(d dir, executable string) string {
	return fmt.Sprintf(`#!/bin/sh
export KUBECONFIG=%s KUBECACHEDIR=%s KUBERC=off GOGC=off GOMEMLIMIT=256MiB
exec %s kubectl "$@"
`, quote(d.kubeconfig()), quote(d.path("kubectl-cache")), quote(executable))
}

// quote makes one word of text for a POSIX shell.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
