package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// pollInterval is short, because everything that uses a cluster waits for it.
const pollInterval = 100 * time.Millisecond

// api talks to the API server, and to etcd and the registry, about readiness only.
type api struct {
	http  *http.Client
	ports ports
}

func newAPI(c credentials, p ports) (api, error) {
	pair, err := tls.X509KeyPair(c.admin.cert, c.admin.key)
	if err != nil {
		return api{}, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.parsed)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
		// A connection to a server that was restarted in between must not be used again.
		DisableKeepAlives: true,
	}
	return api{http: &http.Client{Transport: transport, Timeout: 5 * time.Second}, ports: p}, nil
}

func (a api) server() string { return "https://" + loopback(a.ports.apiServer) }

// call sends a request and decodes the answer into out, unless that is nil.
func (a api) call(ctx context.Context, method, url string, body []byte, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 && answer.StatusCode != http.StatusConflict {
		return fmt.Errorf("%s %s: %s: %.300s", method, url, answer.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

func (a api) get(ctx context.Context, url string, out any) error {
	return a.call(ctx, http.MethodGet, url, nil, out)
}

// ready returns nil once the component serves. Those without a port of their own are ready as
// soon as they run; what they do is part of settled.
func (a api) ready(ctx context.Context, component string) error {
	switch component {
	case etcd:
		return a.get(ctx, "https://"+loopback(a.ports.etcd)+"/health", nil)
	case registry:
		return a.get(ctx, "http://"+loopback(a.ports.registry)+"/v2/", nil)
	case apiServer:
		return a.get(ctx, a.server()+"/readyz", nil)
	default:
		return nil
	}
}

// addNodes creates the simulated nodes; those that exist stay as they are.
func (a api) addNodes(ctx context.Context) error {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := a.get(ctx, a.server()+"/version", &version); err != nil {
		return err
	}
	for _, node := range nodes(version.GitVersion) {
		body, err := json.Marshal(node)
		if err != nil {
			return err
		}
		if err := a.call(ctx, http.MethodPost, a.server()+"/api/v1/nodes", body, nil); err != nil {
			return err
		}
	}
	return nil
}

// settled returns nil once pods can be created and run: the default account exists, and every
// node is ready and no longer tainted.
func (a api) settled(ctx context.Context) error {
	url := a.server() + "/api/v1/namespaces/default/serviceaccounts/default"
	if err := a.get(ctx, url, nil); err != nil {
		return fmt.Errorf("the default service account: %w", err)
	}
	var list nodeList
	if err := a.get(ctx, a.server()+"/api/v1/nodes", &list); err != nil {
		return err
	}
	if got := list.schedulable(); got < nodeCount {
		return fmt.Errorf("%d of %d nodes are ready", got, nodeCount)
	}
	return nil
}
