package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
)

// injector is a webhook on controller-runtime, as its documentation has them.
type injector struct{ decoder admission.Decoder }

func (i *injector) Handle(_ context.Context, req admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := i.decoder.Decode(req, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	inject(pod)
	changed, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, changed)
}

const (
	handwrittenConfigurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	handwrittenName           = "handwritten"
	handwrittenWebhook        = "/mutate"
)

// runHandwritten serves the webhook, and registers it while it does.
func runHandwritten(ctx context.Context, kubeconfig string) (err error) {
	log.SetLogger(logr.Discard())
	client, err := cluster.Connect(kubeconfig)
	if err != nil {
		return err
	}
	// Something free for the moment: the server takes a port, and no listener.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a port: %w", err)
	}
	address := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return fmt.Errorf("find a port: %w", err)
	}
	dir, bundle, err := certify()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: address.Port, CertDir: dir})
	server.Register(handwrittenWebhook, &webhook.Admission{Handler: &injector{admission.NewDecoder(scheme.Scheme)}})
	if err := registerHandwritten(ctx, client, "https://"+address.String()+handwrittenWebhook, bundle); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, client.Delete(context.WithoutCancel(ctx), handwrittenConfigurations+"/"+handwrittenName))
	}()
	return server.Start(ctx)
}

// certify makes a certificate for loopback, in a directory that it names.
func certify() (dir string, bundle []byte, err error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return "", nil, fmt.Errorf("make a certificate: %w", err)
	}
	if dir, err = os.MkdirTemp("", "setpoint-admission-certificate-"); err != nil {
		return "", nil, fmt.Errorf("make a certificate: %w", err)
	}
	for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", nil, fmt.Errorf("make a certificate: %w", err)
		}
	}
	return dir, certificate, nil
}

func registerHandwritten(ctx context.Context, client *cluster.Client, url string, bundle []byte) error {
	none := admissionv1.SideEffectClassNone
	body, err := json.Marshal(admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: handwrittenName},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "inject.handwritten.test", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: bundle},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	})
	if err != nil {
		return err
	}
	_, err = client.Create(ctx, handwrittenConfigurations, body)
	return err
}
