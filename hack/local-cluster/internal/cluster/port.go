package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports come from below Linux's range for outgoing connections (32768 and up), so that the port
// of a stopped component is not handed to somebody else before it starts again.
const (
	firstPort = 20000
	lastPort  = 31999
	portTries = 200
)

// reservation holds ports against other clusters on this machine until it is closed or the
// process ends.
type reservation struct {
	locks []net.Listener
}

// next returns a free loopback port that no other cluster holds.
//
// A port is claimed by the name of an abstract Unix socket, which the kernel frees with the
// process; listening on it would not survive the moment between closing it and the component's
// own start.
func (r *reservation) next() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		lock, err := net.Listen("unix", fmt.Sprintf("@local-cluster/port/%d", port))
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp4", loopback(port))
		if err != nil {
			_ = lock.Close()
			continue
		}
		_ = probe.Close()
		r.locks = append(r.locks, lock)
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d after %d tries", firstPort, lastPort, portTries)
}

func (r *reservation) close() {
	for _, lock := range r.locks {
		_ = lock.Close()
	}
}

// ports are those of one cluster.
type ports struct {
	etcd, etcdPeer, apiServer, registry int
}

func (r *reservation) all() (ports, error) {
	var p ports
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiServer, &p.registry} {
		var err error
		if *port, err = r.next(); err != nil {
			return ports{}, err
		}
	}
	return p, nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
