package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestClustersNeverShareAPort(t *testing.T) {
	var one, other reservation
	defer one.close()
	defer other.close()
	seen := map[int]bool{}
	for range 50 {
		for _, r := range []*reservation{&one, &other} {
			port := must[int](t)(r.next())
			if seen[port] || port < firstPort || port > lastPort {
				t.Fatalf("port %d is taken or out of range", port)
			}
			seen[port] = true
		}
	}
}

func TestKubeconfigIsTheAdministratorOverVerifiedTLS(t *testing.T) {
	d := dir(t.TempDir())
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	made := must[credentials](t)(makeCredentials(d, "https://127.0.0.1:20000"))
	got := must[*rest.Config](t)(clientcmd.BuildConfigFromFlags("", d.kubeconfig()))
	if got.Host != "https://127.0.0.1:20000" || got.Insecure {
		t.Errorf("host %q, insecure %t", got.Host, got.Insecure)
	}
	if string(got.CAData) != string(made.ca.cert) {
		t.Error("another authority than the cluster's")
	}
	admin := must[tls.Certificate](t)(tls.X509KeyPair(got.CertData, got.KeyData))
	if subject := admin.Leaf.Subject; subject.CommonName != "admin" || subject.Organization[0] != "system:masters" {
		t.Errorf("subject %v", subject)
	}
}

func TestControllerCertificateIsALeafForItsThreeNames(t *testing.T) {
	d := dir(t.TempDir())
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := makeControllerCertificate(d); err != nil {
		t.Fatal(err)
	}
	pair := must[tls.Certificate](t)(tls.LoadX509KeyPair(d.path("controller", "tls.crt"), d.path("controller", "tls.key")))
	if pair.Leaf.IsCA {
		t.Error("the leaf is an authority")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must[[]byte](t)(os.ReadFile(d.path("controller", "ca.crt"))))
	for _, host := range []string{"127.0.0.1", "localhost", "catalogd-service.olmv1-system.svc"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestStages(t *testing.T) {
	crash := map[string]string{"local-cluster/crash-loop": "true"}
	waiting := func(reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}}
	}
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}}
	pending := corev1.PodStatus{Phase: corev1.PodPending}
	for _, test := range []struct {
		title       string
		name        string
		image       string
		annotations map[string]string
		status      corev1.PodStatus
		want        string
		delay       string
	}{
		{"an ordinary pod becomes ready", "a", "nginx", nil, pending, "pod-ready", "0s"},
		{"a slow one does later", "a", "nginx", map[string]string{"local-cluster/ready-after": "5s"}, pending, "pod-ready", "5s"},
		{"a ready pod stays as it is", "a", "nginx", nil, ready, "", ""},
		{"a wrong image cannot be pulled", "a", "quay.io/wrong/image:v1", nil, pending, "pod-image-missing", "0s"},
		{"a name can say the same", "does-not-exist-1", "nginx", nil, pending, "pod-image-missing", "0s"},
		{"and nothing follows it", "a", "wrong/image", nil, waiting("ImagePullBackOff"), "", ""},
		{"a crash loop starts with the pod", "a", "nginx", crash, pending, "pod-crash-loop", "0s"},
		{"or later", "a", "nginx", crash, ready, "pod-crash-loop", "0s"},
		{"and goes on", "a", "nginx", crash, waiting("CrashLoopBackOff"), "", ""},
		{"until the annotation goes", "a", "nginx", nil, waiting("CrashLoopBackOff"), "pod-recovered", "0s"},
	} {
		t.Run(test.title, func(t *testing.T) {
			pod := &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Name: test.name, Annotations: test.annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: test.image}}},
				Status:     test.status,
			}
			name, delay := stageOf(t, pod)
			if name != test.want || delay != test.delay {
				t.Errorf("stage %q after %q, want %q after %q", name, delay, test.want, test.delay)
			}
		})
	}
}

// stageOf asks kwok itself what it would do with a pod, and when.
func stageOf(t *testing.T, pod *corev1.Pod) (name, delay string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stages.yaml")
	if err := os.WriteFile(path, []byte(stages()), 0o600); err != nil {
		t.Fatal(err)
	}
	var forPods []*internalversion.Stage
	for _, stage := range config.FilterWithType[*internalversion.Stage](must[[]config.InternalObject](t)(config.Load(t.Context(), path))) {
		if stage.Spec.ResourceRef.Kind == "Pod" {
			forPods = append(forPods, stage)
		}
	}
	all := must[lifecycle.Lifecycle](t)(lifecycle.NewLifecycle(forPods))
	event := &lifecycle.Event{Labels: pod.Labels, Annotations: pod.Annotations, Data: pod}
	possible := must[[]*lifecycle.Stage](t)(all.ListAllPossible(t.Context(), event))
	switch len(possible) {
	case 0:
		return "", ""
	case 1:
		after, _, err := possible[0].Delay(t.Context(), event, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return possible[0].Name(), after.String()
	default:
		t.Fatalf("kwok would choose one of %d stages at random", len(possible))
		return "", ""
	}
}
