package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// keyPair is a certificate and its key, both as PEM, ready to sign with.
type keyPair struct {
	cert, key []byte
	parsed    *x509.Certificate
	signer    crypto.Signer
}

// subject says what a certificate is for.
type subject struct {
	name  string
	group string
	hosts []string // names and addresses; a certificate without any is for clients only
}

// validity is long enough for a cluster that stays up for weeks; certificates are made anew at
// every start.
const validity = 365 * 24 * time.Hour

func newCA(name string) (keyPair, error) {
	template := newTemplate(subject{name: name})
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	return sign(template, nil)
}

// issue returns a certificate for a client, and for a server too when the subject has hosts.
func (ca keyPair) issue(s subject) (keyPair, error) {
	template := newTemplate(s)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return sign(template, &ca)
}

func newTemplate(s subject) *x509.Certificate {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: s.name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		BasicConstraintsValid: true,
	}
	if s.group != "" {
		template.Subject.Organization = []string{s.group}
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

// sign makes a key and a certificate for it, signed by ca or, without one, by itself.
func sign(template *x509.Certificate, ca *keyPair) (keyPair, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return keyPair{}, err
	}
	parent, parentKey := template, crypto.Signer(signer)
	if ca != nil {
		parent, parentKey = ca.parsed, ca.signer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, signer.Public(), parentKey)
	if err != nil {
		return keyPair{}, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return keyPair{}, err
	}
	key, err := privatePEM(signer)
	if err != nil {
		return keyPair{}, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return keyPair{cert: cert, key: key, parsed: parsed, signer: signer}, nil
}

func privatePEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func publicPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// store writes both halves; either path may be empty.
func (p keyPair) store(certPath, keyPath string) error {
	if certPath != "" {
		if err := os.WriteFile(certPath, p.cert, 0o644); err != nil {
			return err
		}
	}
	if keyPath == "" {
		return nil
	}
	return os.WriteFile(keyPath, p.key, 0o600)
}

// credentials are those that the supervisor itself goes on using.
type credentials struct {
	ca    keyPair
	admin keyPair
}

// makeCredentials writes every certificate, key and kubeconfig of the cluster.
func makeCredentials(d dir, apiServer string) (credentials, error) {
	ca, err := newCA("local-cluster")
	if err != nil {
		return credentials{}, err
	}
	if err := ca.store(d.pki("ca.crt"), d.pki("ca.key")); err != nil {
		return credentials{}, err
	}
	loopback := []string{"127.0.0.1", "localhost"}
	serviceNames := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local",
	}
	for name, s := range map[string]subject{
		"etcd":           {name: "etcd", hosts: loopback},
		"apiserver":      {name: "kube-apiserver", hosts: append(serviceNames, loopback...)},
		"apiserver-etcd": {name: "kube-apiserver"},
	} {
		pair, err := ca.issue(s)
		if err != nil {
			return credentials{}, err
		}
		if err := pair.store(d.pki(name+".crt"), d.pki(name+".key")); err != nil {
			return credentials{}, err
		}
	}
	if err := makeAccountKeys(d); err != nil {
		return credentials{}, err
	}
	if err := makeControllerCertificate(d); err != nil {
		return credentials{}, err
	}
	admin, err := makeKubeconfigs(d, ca, apiServer)
	return credentials{ca: ca, admin: admin}, err
}

// makeKubeconfigs writes one kubeconfig for each client and returns the administrator's identity.
func makeKubeconfigs(d dir, ca keyPair, apiServer string) (keyPair, error) {
	clients := []struct {
		path string
		subject
	}{
		{d.pki("kube-controller-manager.kubeconfig"), subject{name: "system:kube-controller-manager"}},
		{d.pki("kube-scheduler.kubeconfig"), subject{name: "system:kube-scheduler"}},
		{d.pki("kwok.kubeconfig"), subject{name: "kwok", group: "system:masters"}},
		{d.kubeconfig(), subject{name: "admin", group: "system:masters"}},
	}
	var last keyPair
	for _, client := range clients {
		pair, err := ca.issue(client.subject)
		if err != nil {
			return keyPair{}, err
		}
		text := kubeconfig(apiServer, ca.cert, client.name, pair)
		if err := os.WriteFile(client.path, []byte(text), 0o600); err != nil {
			return keyPair{}, err
		}
		last = pair
	}
	return last, nil
}

// makeAccountKeys writes the keys that sign and verify service-account tokens.
func makeAccountKeys(d dir) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := privatePEM(key)
	if err != nil {
		return err
	}
	public, err := publicPEM(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.pki("accounts.key"), private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(d.pki("accounts.pub"), public, 0o644)
}

// makeControllerCertificate issues what the olm-controller serves catalogs with. Its authority is
// its own: trusting the cluster's would prove nothing about the controller's `--catalogd-cas-dir`.
func makeControllerCertificate(d dir) error {
	ca, err := newCA("local-cluster-controller")
	if err != nil {
		return err
	}
	hosts := []string{"127.0.0.1", "localhost", "catalogd-service.olmv1-system.svc"}
	leaf, err := ca.issue(subject{name: "olm-controller", hosts: hosts})
	if err != nil {
		return err
	}
	if err := ca.store(d.path("controller", "ca.crt"), ""); err != nil {
		return err
	}
	return leaf.store(d.path("controller", "tls.crt"), d.path("controller", "tls.key"))
}
