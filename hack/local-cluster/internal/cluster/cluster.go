// Package cluster starts, supervises and stops the processes of one throw-away control plane.
//
// A directory and nothing else goes in; cluster.json in that directory comes out. Each process is
// this same program with a component's name as its first argument. What the components do is none
// of this package's business: it knows their flags and how to see that they are ready.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Options are the flags of `up`.
type Options struct {
	Dir     string        // absolute; created when absent
	Timeout time.Duration // for everything to be ready
	Out     io.Writer     // what was started, for people
	Log     io.Writer     // progress and trouble
}

// cluster is a running control plane.
type cluster struct {
	Options
	dir         dir
	description Description
	api         api
	components  []component
	launcher    launcher
	began       time.Time
	down        context.CancelFunc
	deaths      chan *process
	ready       atomic.Bool

	mu        sync.Mutex
	processes map[string]*process
}

// Up runs a cluster until ctx ends or somebody asks for its end, and stops it.
func Up(ctx context.Context, options Options) error {
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return err
	}
	if Request(options.Dir, "ping", "") == nil {
		return fmt.Errorf("a cluster already runs in %s", options.Dir)
	}
	var reserved reservation
	defer reserved.close()
	c, err := newCluster(options, &reserved)
	if err != nil {
		return err
	}
	listener, err := listenControl(c.dir)
	if err != nil {
		return err
	}
	ctx, c.down = context.WithCancel(ctx)
	defer c.down()
	go serveControl(ctx, listener, c.act)

	err = c.run(ctx)
	// Requests end first, so that none starts what is being stopped.
	c.down()
	_ = listener.Close()
	_ = os.Remove(c.dir.description())
	c.stop()
	_ = os.Remove(c.dir.path("control.sock"))
	return err
}

// newCluster chooses ports and writes every file that the components read.
func newCluster(options Options, reserved *reservation) (*cluster, error) {
	d := dir(options.Dir)
	if err := d.prepare(); err != nil {
		return nil, err
	}
	p, err := reserved.all()
	if err != nil {
		return nil, err
	}
	server := "https://" + loopback(p.apiServer)
	credentials, err := makeCredentials(d, server)
	if err != nil {
		return nil, fmt.Errorf("making certificates: %w", err)
	}
	if err := writeConfiguration(d, p); err != nil {
		return nil, err
	}
	client, err := newAPI(credentials, p)
	if err != nil {
		return nil, err
	}
	return &cluster{
		Options:    options,
		dir:        d,
		api:        client,
		components: components(d, p),
		launcher:   newLauncher(),
		began:      time.Now(),
		deaths:     make(chan *process),
		processes:  map[string]*process{},
		description: Description{
			Dir:            options.Dir,
			Kubeconfig:     d.kubeconfig(),
			Kubectl:        d.path("kubectl"),
			APIServer:      server,
			CAFile:         d.pki("ca.crt"),
			Etcd:           "https://" + loopback(p.etcd),
			Registry:       loopback(p.registry),
			RegistriesConf: d.path("registries.conf"),
			AuditLog:       d.path("audit.log"),
			Logs:           d.path("logs"),
			ControllerCert: d.path("controller", "tls.crt"),
			ControllerKey:  d.path("controller", "tls.key"),
			ControllerCA:   d.path("controller", "ca.crt"),
			Supervisor:     os.Getpid(),
		},
	}, nil
}

func writeConfiguration(d dir, p ports) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	address := loopback(p.registry)
	for _, file := range []struct {
		path, text string
		mode       os.FileMode
	}{
		{d.path("config", "audit-policy.yaml"), auditPolicy, 0o600},
		// The API server appends to a log that exists, which may then be emptied while it runs.
		{d.path("audit.log"), "", 0o600},
		{d.path("config", "registry.yaml"), registryConfig(address, d.path("registry"), hex.EncodeToString(secret)), 0o600},
		{d.path("config", "stages.yaml"), stages(), 0o600},
		{d.path("registries.conf"), registriesConf(address), 0o644},
		{d.path("kubectl"), kubectlScript(d, executable), 0o755},
	} {
		if err := os.WriteFile(file.path, []byte(file.text), file.mode); err != nil {
			return err
		}
	}
	return nil
}

// run starts everything, says so, and waits for the end.
func (c *cluster) run(ctx context.Context) error {
	starting, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := c.startAll(starting); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while it was starting
		}
		return err
	}
	if err := c.describe(); err != nil {
		return err
	}
	c.ready.Store(true)
	c.announce()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-c.deaths:
			how, unexpected := p.died()
			if !unexpected {
				continue
			}
			if !slices.Contains(clients, p.name) {
				c.progress("%s died: %s, see %s; `start %s` starts it again", p.name, how, c.dir.log(p.name), p.name)
				continue
			}
			c.progress("%s died: %s, see %s; it is started again", p.name, how, c.dir.log(p.name))
			time.AfterFunc(clientRestart, func() { c.restart(ctx, p) })
		}
	}
}

// startAll starts the API server with what it needs, and the rest once that one is ready: a
// controller manager that has to wait for it gives up too soon on a slow machine.
func (c *cluster) startAll(ctx context.Context) error {
	names := []string{etcd, registry, apiServer}
	if err := c.startThese(ctx, names); err != nil {
		return err
	}
	if err := c.startThese(ctx, clients); err != nil {
		return err
	}
	if err := c.await(ctx, "nodes to be created", c.api.addNodes); err != nil {
		return err
	}
	return c.await(ctx, "nodes and the default service account", c.api.settled)
}

func (c *cluster) startThese(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := c.start(name); err != nil {
			return err
		}
	}
	for _, name := range names {
		err := c.await(ctx, name, func(ctx context.Context) error { return c.api.ready(ctx, name) })
		if err != nil {
			return err
		}
	}
	return nil
}

// await polls until check succeeds, a component dies or time is up.
func (c *cluster) await(ctx context.Context, what string, check func(context.Context) error) error {
	said := false
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if !said {
			c.progress("waiting for %s", what)
			said = true
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("gave up waiting for %s: %w", what, err)
			}
			return ctx.Err()
		case p := <-c.deaths:
			if how, unexpected := p.died(); unexpected {
				log := c.dir.log(p.name)
				return fmt.Errorf("%s died: %s; the end of %s:\n%s", p.name, how, log, tail(log, 20))
			}
		case <-time.After(pollInterval):
		}
	}
}

// start starts a component, one of ours, unless it runs.
func (c *cluster) start(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.processes[name]; p != nil && !p.ended() {
		return fmt.Errorf("%s already runs", name)
	}
	index := slices.IndexFunc(c.components, func(one component) bool { return one.name == name })
	p, err := c.launcher.launch(c.components[index], c.dir)
	if err != nil {
		return err
	}
	c.processes[name] = p
	go func() {
		<-p.done
		c.deaths <- p
	}()
	return nil
}

// running returns a component's process.
func (c *cluster) running(name string) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[name]
	if p == nil || p.ended() {
		return nil, fmt.Errorf("%s does not run", name)
	}
	return p, nil
}

// restart starts a component after it died, as the kubelet would, unless somebody did meanwhile.
func (c *cluster) restart(ctx context.Context, p *process) {
	c.mu.Lock()
	isLast := c.processes[p.name] == p
	c.mu.Unlock()
	if !isLast || ctx.Err() != nil {
		return
	}
	if err := c.start(p.name); err != nil {
		c.progress("%s: %v", p.name, err)
	}
}

// stop ends everything: first what uses the API server, all at once, then the API server, and
// etcd last.
func (c *cluster) stop() {
	go func() {
		for range c.deaths { // nobody else listens any more
		}
	}()
	for _, names := range [][]string{{kwok, scheduler, controllerManager, registry}, {apiServer}, {etcd}} {
		var group sync.WaitGroup
		for _, name := range names {
			if p, err := c.running(name); err == nil {
				group.Go(p.stop)
			}
		}
		group.Wait()
	}
	c.progress("stopped")
}

// act does what somebody asks for through the control socket.
func (c *cluster) act(ctx context.Context, action, name string) error {
	switch action {
	case "ping":
		return nil
	case "down":
		c.down()
		return nil
	}
	if !c.ready.Load() {
		return errors.New("the cluster is not ready yet")
	}
	if !slices.ContainsFunc(c.components, func(one component) bool { return one.name == name }) {
		return fmt.Errorf("no component is called %q", name)
	}
	if action == "start" {
		return c.startAgain(ctx, name)
	}
	p, err := c.running(name)
	if err != nil {
		return err
	}
	switch action {
	case "restart":
		p.stop()
		return c.startAgain(ctx, name)
	case "stop":
		p.stop()
	case "kill":
		p.kill()
	case "pause":
		return p.cmd.Process.Signal(syscall.SIGSTOP)
	case "resume":
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		return c.renewClients(ctx, name)
	default:
		return fmt.Errorf("no action is called %q", action)
	}
	return c.describe()
}

// startAgain starts a component that ended, and returns once it serves again.
func (c *cluster) startAgain(ctx context.Context, name string) error {
	if err := c.startAndAwait(ctx, name); err != nil {
		return err
	}
	return c.renewClients(ctx, name)
}

// renewClients starts the clients of the API server again after it or its store was away. Their
// watches wait for longer after every failure, up to a minute, and kwok forgets the status of a pod
// whose connection was cut in the middle. On a cluster the controller manager and the scheduler
// lose their Lease and end, and the kubelet starts them again.
func (c *cluster) renewClients(ctx context.Context, name string) error {
	if name != apiServer && name != etcd {
		return nil
	}
	for _, needed := range []string{etcd, apiServer} {
		if _, err := c.running(needed); err != nil {
			return nil // it will be started
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := c.serves(ctx, apiServer); err != nil {
		return err
	}
	for _, client := range clients {
		p, err := c.running(client)
		if err != nil {
			continue // it is meant to be away
		}
		p.stop()
		if err := c.startAndAwait(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

// startAndAwait starts a component and returns once it serves again.
func (c *cluster) startAndAwait(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := c.start(name); err != nil {
		return err
	}
	if err := c.describe(); err != nil {
		return err
	}
	return c.serves(ctx, name)
}

// serves returns once a component that runs serves.
func (c *cluster) serves(ctx context.Context, name string) error {
	for {
		err := c.api.ready(ctx, name)
		if err == nil {
			return nil
		}
		if _, gone := c.running(name); gone != nil {
			return fmt.Errorf("%s died, see %s", name, c.dir.log(name))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for %s: %w", name, err)
		case <-time.After(pollInterval):
		}
	}
}

// describe writes cluster.json as things stand.
func (c *cluster) describe() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.description.PIDs = map[string]int{}
	for name, p := range c.processes {
		if !p.ended() {
			c.description.PIDs[name] = p.pid()
		}
	}
	return c.description.write()
}

func (c *cluster) announce() {
	d := c.description
	c.progress("ready")
	_, _ = fmt.Fprintf(c.Out, `directory        %s
kubeconfig       %s
kubectl          %s
API server       %s
registry         %s
registries.conf  %s
audit log        %s
logs             %s
`, d.Dir, d.Kubeconfig, d.Kubectl, d.APIServer, d.Registry, d.RegistriesConf, d.AuditLog, d.Logs)
}

func (c *cluster) progress(format string, arguments ...any) {
	message := fmt.Sprintf(format, arguments...)
	_, _ = fmt.Fprintf(c.Log, "[%5.1f s] %s\n", time.Since(c.began).Seconds(), message)
}
