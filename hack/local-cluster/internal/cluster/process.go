package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// launcher starts processes from one thread that never ends.
//
// The signal that a child gets when its parent dies is tied to the thread that started it, and Go
// ends threads as it likes.
type launcher chan func()

func newLauncher() launcher {
	l := make(launcher)
	go func() {
		runtime.LockOSThread()
		for start := range l {
			start()
		}
	}()
	return l
}

func (l launcher) start(cmd *exec.Cmd) error {
	result := make(chan error)
	l <- func() { result <- cmd.Start() }
	return <-result
}

// process is a component that was started; done is closed when it has ended.
type process struct {
	component
	cmd  *exec.Cmd
	done chan struct{}

	mu     sync.Mutex
	wanted bool // false once somebody asked for its end
	result string
}

// launch runs a component of this very program, its output appended to the component's log.
func (l launcher) launch(c component, d dir) (*process, error) {
	log, err := os.OpenFile(d.log(c.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	// This path names the running program even after its file was replaced by a new build.
	cmd := exec.Command("/proc/self/exe", append([]string{c.name}, c.args...)...)
	cmd.Args[0] = "local-cluster"
	cmd.Dir = string(d)
	cmd.Env = environment()
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		// A Ctrl-C in the terminal reaches the supervisor alone, which keeps the order of stopping.
		Setpgid: true,
	}
	if err := l.start(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	p := &process{component: c, cmd: cmd, done: make(chan struct{}), wanted: true}
	go p.wait()
	return p, nil
}

// memoryLimit returns a tenth of the available memory in MiB, at most 3 GiB, which an API server
// needs with hundreds of large CRDs. With less than 768 MiB it would do little but collect garbage.
func memoryLimit() int {
	content, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(content), "MemAvailable:")
	available := 0
	_, _ = fmt.Sscanf(rest, "%d kB", &available)
	container, _ := os.ReadFile("/sys/fs/cgroup/memory.max")
	most := 0
	if n, _ := fmt.Sscan(string(container), &most); n == 1 {
		available = min(available, most/1024)
	}
	return min(max(available/1024/10, 768), 3072)
}

// environment returns the little that components need. The caller's is kept away from them: etcd
// and the registry read their settings from variables.
func environment() []string {
	// A sixth of the usual time in the collector, for more memory.
	env := []string{
		"OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none", "GOGC=600",
		fmt.Sprintf("GOMEMLIMIT=%dMiB", memoryLimit()),
	}
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "GODEBUG", "GOMAXPROCS"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (p *process) wait() {
	_ = p.cmd.Wait()
	p.mu.Lock()
	p.result = p.cmd.ProcessState.String()
	p.mu.Unlock()
	close(p.done)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// died returns how the process ended when nobody had asked for it.
func (p *process) died() (how string, unexpected bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result, p.wanted && p.ended()
}

func (p *process) unwant() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = false
}

// kill ends the process without any warning.
func (p *process) kill() {
	p.unwant()
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop asks the process to end, and kills it after the component's grace period.
func (p *process) stop() {
	p.unwant()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	// A paused process would see the first signal only once it runs again.
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
	case <-time.After(p.grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail returns the last lines of a file, or why it cannot be read.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
