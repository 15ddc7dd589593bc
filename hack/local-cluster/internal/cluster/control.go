package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Actions are what `up` does on request while it runs. All but "down" name a component.
var Actions = []string{"start", "stop", "restart", "kill", "pause", "resume", "down"}

// withControlPath calls use with a name of the control socket that is short whatever the
// directory's is: the name of a socket may have 107 bytes only.
func withControlPath(d dir, use func(path string) error) error {
	folder, err := os.Open(string(d))
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return use(fmt.Sprintf("/proc/self/fd/%d/control.sock", folder.Fd()))
}

func listenControl(d dir) (net.Listener, error) {
	var listener net.Listener
	err := withControlPath(d, func(path string) (err error) {
		listener, err = net.Listen("unix", path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening for requests: %w", err)
	}
	// The short name is gone by the time the listener closes; prepare removes the file.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	return listener, nil
}

// Request asks the cluster in a directory for an action, and returns when it is done.
func Request(directory, action, component string) error {
	var answer string
	err := withControlPath(dir(directory), func(path string) error {
		connection, err := net.Dial("unix", path)
		if err != nil {
			return fmt.Errorf("no cluster runs in %s: %w", directory, err)
		}
		defer func() { _ = connection.Close() }()
		if _, err := fmt.Fprintf(connection, "%s %s\n", action, component); err != nil {
			return err
		}
		answer, err = bufio.NewReader(connection).ReadString('\n')
		if err != nil {
			return fmt.Errorf("the cluster did not answer: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return errors.New(answer)
	}
	if action == "down" {
		return awaitDown(dir(directory))
	}
	return nil
}

// stopLimit is longer than all grace periods together.
const stopLimit = 15 * time.Second

// awaitDown returns once the supervisor has removed its socket, the last thing that it does.
func awaitDown(d dir) error {
	for end := time.Now().Add(stopLimit); time.Now().Before(end); time.Sleep(pollInterval) {
		if _, err := os.Stat(d.path("control.sock")); os.IsNotExist(err) {
			return nil
		}
	}
	return fmt.Errorf("the cluster in %s is still stopping after %s", d, stopLimit)
}

// serveControl answers one request after the other until the listener is closed.
func serveControl(ctx context.Context, listener net.Listener, act func(ctx context.Context, action, component string) error) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		line, err := bufio.NewReader(connection).ReadString('\n')
		if err == nil {
			action, component, _ := strings.Cut(strings.TrimSpace(line), " ")
			answer := "ok"
			if err := act(ctx, action, component); err != nil {
				answer = strings.ReplaceAll(err.Error(), "\n", " ")
			}
			_, _ = fmt.Fprintln(connection, answer)
		}
		_ = connection.Close()
	}
}
